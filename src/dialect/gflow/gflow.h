// Parses the options of gbatch and of "# GFLOW" script lines into a JobSpec. Unlike in gflow, every option on a script
// line is applied.
//
// Visible differences to gflow are added to the spec as notes.
//
// Order of calls: options of script lines, options of the command line, FinishGflow. For a script, ReadScript does the
// first and the last. If a command line changes the spec afterwards, call FinishGflow again; that is harmless.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/job_options.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// gflow's priorities are 0 to 255 with a default of 10; divvy's default is 0. Subtracting 10 puts the jobs of both
/// tools into one order.
inline constexpr int kGflowDefaultPriority = 10;
constexpr int GflowPriority(int divvy_priority) { return divvy_priority + kGflowDefaultPriority; }

/// Returns the options of gbatch, as a table that fills `spec`. Each call makes a new level (see JobOptions). The
/// closures write into `spec`. `spec` and `around` must outlive the table.
std::vector<Option> GflowOptions(JobSpec& spec, const ParseContext& around);

/// Applies rules over all options. --shared needs --gpu-memory, and --max-concurrent makes a group. --conda-env wraps
/// the command or script so that it runs in that environment. At its start the job fails with a message if the
/// environment cannot be activated.
Status FinishGflow(JobSpec& spec, const ParseContext& around);

}  // namespace divvy::dialect
