// Turns srun's words and the job's environment into the request for a step. Pure: everything else that it needs is an
// argument. cli/steps/step_plan.h turns the request into tasks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/steps/step_plan.h"
#include "model/job.h"

namespace divvy::cli::slurm {

/// True inside a job of divvy; a job of a real Slurm does not count.
bool IsInsideJob(const std::vector<std::string>& environment);

/// Returns the request for a step. `spec` holds srun's options as SbatchOptions parses them. Options that are missing
/// come from the job's environment. `is_spread`: the job is on several nodes, so a step may name some of them.
/// `task_hosts`: see dialect::TaskHosts.
Result<StepOptions> ReadStepOptions(JobSpec& spec, const JobAround& around, bool is_spread = false,
                                    std::vector<std::string> task_hosts = {});

/// --multi-prog: each rank's command, from lines "RANKS COMMAND...". "*" means all ranks that no other line has, %t the
/// rank, and %o the rank's position in the line.
Result<std::vector<std::vector<std::string>>> ReadMultiProg(std::string_view text, int tasks);

/// Programs that a step runs before and after each of its tasks, as the task's user and on the task's node.
struct TaskHooks {
  std::string prolog;  // Its output lines "export NAME=VALUE", "unset NAME" and "print TEXT" apply to the task.
  std::string epilog;
  bool any() const { return !prolog.empty() || !epilog.empty(); }
};
/// The command that runs the prolog, `command` and the epilog; `command` itself without hooks.
std::vector<std::string> WithHooks(const TaskHooks& hooks, std::vector<std::string> command);
/// Returns the file name of a program: "solve" for "/opt/bin/solve".
std::string ProgramOf(const std::string& command);

}  // namespace divvy::cli::slurm
