// From srun's words and the environment of the job around it to what the step asks. Pure: what it needs of the world is
// an argument. cli/steps/step_plan.h makes tasks of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/steps/step_plan.h"
#include "model/job.h"

namespace divvy::cli::slurm {

/// True inside a job of divvy's; another Slurm's job does not count.
bool IsInsideJob(const std::vector<std::string>& environment);

/// `spec` holds srun's options as SbatchOptions leaves them; what they do not say comes from the job's environment.
/// `is_spread`: the job is on several machines, and a step may name some.
Result<StepAsk> ReadStepAsk(JobSpec& spec, const JobAround& around, bool is_spread = false);

/// --multi-prog: each rank's command from lines "RANKS COMMAND..."; "*" is every other rank, %t the rank, %o its place
/// among the line's ranks.
Result<std::vector<std::vector<std::string>>> ReadMultiProg(std::string_view text, int tasks);

/// Programs that a step runs around each of its tasks, as the task's user and where the task runs.
struct TaskHooks {
  std::string prolog;  // Its lines "export NAME=VALUE", "unset NAME" and "print TEXT" are about the task.
  std::string epilog;
  bool any() const { return !prolog.empty() || !epilog.empty(); }
};
/// The command that runs them and `command` between; `command` itself where there are none.
std::vector<std::string> WithHooks(const TaskHooks& hooks, std::vector<std::string> command);
/// "solve" of "/opt/bin/solve".
std::string ProgramOf(const std::string& command);

}  // namespace divvy::cli::slurm
