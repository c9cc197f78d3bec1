// Steps inside a job, from the command line: how a command reaches the job's step process, which the first of them
// starts, and what that process does with the words of each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/steps/step_plan.h"
#include "platform/os/launch_descriptor.h"
#include "platform/steps/step_server.h"

namespace divvy::cli {

/// Where the job that `environment` describes lists its steps; empty outside a job.
std::string StepListOf(const std::vector<std::string>& environment);

/// Runs this command ("srun", "run") as a step of the job that we are in. Starts the job's step process where there is
/// none. Returns the step's exit code.
int RunInStep(std::string_view command, const std::vector<std::string>& words);

/// The same in another running job of ours, wherever it runs. `wants_terminal`: where our input is one, the step gets
/// it.
int RunInStepOf(const std::string& job, std::string_view command, const std::vector<std::string>& words,
                bool wants_terminal);

std::vector<std::string> OwnEnvironment();
/// What `environment` says of the job around becomes what `job` says of it.
void TakeJobsWords(std::vector<std::string>& environment, const std::vector<std::string>& job);

/// A connection to what stands in running job `id` for us (platform/steps/step_inside.h), wherever it runs; by the
/// controller.
Result<Descriptor> ReachSteps(const std::string& id, bool stops_only);
/// internal-inside FILE [--stops-only]: becomes that, in the job that lists its steps in FILE.
int InsideMain(const std::vector<std::string>& words);

/// internal-steps [--listen=HOST:PORT] [--stay] FILE: becomes the step process of the job that lists its steps in FILE.
/// --listen: of a job on several machines; prints the port. --stay: in this very process, rather than in a child that
/// belongs to whoever adopts orphans (platform/records/gang_files.h has who calls it so).
int StepsMain(const std::vector<std::string>& words);

/// divvy run inside a job: the plan of a step with these words.
Result<StepPlan> PlanRun(const StepCall& call, const std::vector<std::string>& words,
                         const std::vector<std::vector<int>>& machine, const StepIdentity& identity);

/// internal-rsh HOST COMMAND...: what MPI calls to start its daemons on another machine of the job. The command is a
/// line for the shell there, as rsh has it; it is no task with a rank.
Result<StepPlan> PlanRsh(const StepCall& call, const std::vector<std::string>& words,
                         const std::vector<std::vector<int>>& machine, const StepIdentity& identity);

namespace slurm {
/// The same of srun.
Result<StepPlan> PlanSrun(const StepCall& call, const std::vector<std::string>& words,
                          const std::vector<std::vector<int>>& machine, const StepIdentity& identity);
}  // namespace slurm

}  // namespace divvy::cli
