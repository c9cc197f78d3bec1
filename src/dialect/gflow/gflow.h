// gflow's words: the options of gbatch and of "# GFLOW" script lines, read into a JobSpec. Unlike gflow, every option
// that a script line names is applied.
//
// Differences that a user can see are notes of the spec: GPUs are given whole (--shared).
//
// Order of calls: options of script lines, options of the command line, FinishGflow. ReadScript does the first and the
// last for a script; a command line that changes the spec afterwards calls FinishGflow again, which does no harm.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/job_options.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// gflow's priorities go from 0 to 255 with 10 in the middle of things; divvy's middle is 0. Taking 10 off keeps the
/// jobs of both tools side by side in one queue.
inline constexpr int kGflowDefaultPriority = 10;
constexpr int GflowPriority(int divvy_priority) { return divvy_priority + kGflowDefaultPriority; }

/// gbatch's options. Each call makes a new level (see JobOptions). The closures write into `spec`, which must outlive
/// the table, as must `around`.
std::vector<Option> GflowOptions(JobSpec& spec, const Surroundings& around);

/// What needs all options: --shared needs --gpu-memory, --max-concurrent makes a group, --conda-env wraps the command
/// or script so that it runs inside that environment, and fails plainly where it cannot be activated.
Status FinishGflow(JobSpec& spec, const Surroundings& around);

}  // namespace divvy::dialect
