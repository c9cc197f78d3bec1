// How much of its GPU time a run used.
#pragma once

#include "daemon/reports/usage_report.h"
#include "samples/job_use.h"

namespace divvy {

/// GPU-hours of a run, as far as its use is known; a GPU fraction counts as the fraction.
struct RunHours {
  double known = 0;
  double used = 0;  // Use of its own GPUs; use of borrowed capacity is not counted.
  double idle = 0;  // Idle at exactly 0%.

  double lost() const { return known - used; }
};
RunHours HoursOf(const ReportedRun& run, const samples::JobUse& use);

}  // namespace divvy
