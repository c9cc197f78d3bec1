// The line by which a job or step of Slurm's reports in its own output that its time limit ended it.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"

namespace divvy {

/// Returns the line that Slurm writes into the output of a job at its time limit: "*** JOB 17 ON n1 CANCELLED AT
/// 2026-11-28T09:30:00 DUE TO TIME LIMIT ***", in local time. `what`: "JOB 17" or "STEP 17.0". Tools search outputs for
/// this line.
std::string CancelledLine(std::string_view what, std::string_view node, Time now);

}  // namespace divvy
