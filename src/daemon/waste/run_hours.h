// Computes how much of the GPU time that a run held it also used.
#pragma once

#include "daemon/reports/usage_report.h"
#include "samples/job_use.h"

namespace divvy {

/// GPU-hours of a run, for the time in which its use was sampled. An hour on half a GPU counts as 0.5.
struct RunHours {
  double known = 0;
  double used = 0;  // Use of its own GPUs; use of borrowed capacity is not counted.
  double idle = 0;  // GPU-hours with a utilisation of exactly 0%.

  double lost() const { return known - used; }
};
RunHours HoursOf(const ReportedRun& run, const samples::JobUse& use);

}  // namespace divvy
