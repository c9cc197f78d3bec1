// Steps inside a job, from the command line. Commands call the job's step process, which the first of them starts. That
// process plans each step from its words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/steps/step_plan.h"
#include "platform/os/unique_fd.h"
#include "platform/steps/step_server.h"

namespace divvy::cli {

/// Path of the step list of the job that `environment` describes; "" outside a job.
std::string StepListOf(const std::vector<std::string>& environment);

/// Runs this command ("srun", "run") as a step of the enclosing job. Starts the job's step process if there is none.
/// Returns the step's exit code.
int RunInStep(std::string_view command, const std::vector<std::string>& words);

/// Like RunInStep, but runs the command as a step of `job`, which is another running job of this user, on any node.
/// With `wants_terminal`, the step gets this process's standard input if that is a terminal.
int RunInStepOf(const std::string& job, std::string_view command, const std::vector<std::string>& words,
                bool wants_terminal);

std::vector<std::string> OwnEnvironment();
/// Replaces the variables in `environment` that describe the enclosing job with those of `job`.
void TakeJobsWords(std::vector<std::string>& environment, const std::vector<std::string>& job);

/// Connects through the controller to a process inside running job `id` (internal-inside, platform/steps/step_inside.h)
/// that starts or signals steps for callers outside the job. With `stops_only` it can only signal them. Works for jobs
/// on any node.
Result<Descriptor> ReachSteps(const std::string& id, bool stops_only);
/// The hidden command internal-inside FILE [--stops-only]: starts and signals steps for callers outside the job. It
/// runs in the job whose step list is FILE.
int InsideMain(const std::vector<std::string>& words);

/// The hidden command internal-steps [--listen=HOST:PORT] [--stay] FILE: runs as the step process, which starts all
/// steps of the job whose step list is FILE. --listen: for a job on several nodes; prints the port. --stay: serve in
/// this process, instead of in a child that is reparented to the job's supervisor (platform/records/gang_files.h says
/// who uses it).
int StepsMain(const std::vector<std::string>& words);

/// Plans a step for `divvy run` inside a job. `words` is its command line; `machine`: the cores of each NUMA node of
/// this node.
Result<StepPlan> PlanRun(const StepCall& call, const std::vector<std::string>& words,
                         const std::vector<std::vector<int>>& machine, const StepIdentity& identity);

/// Plans a step for the hidden command internal-rsh HOST COMMAND..., by which MPI starts its daemons on another node of
/// the job. As with rsh, the command is a line for the shell there. It is not a task and has no rank.
Result<StepPlan> PlanRsh(const StepCall& call, const std::vector<std::string>& words,
                         const std::vector<std::vector<int>>& machine, const StepIdentity& identity);

namespace slurm {
/// Plans a step for srun inside a job, like PlanRun.
Result<StepPlan> PlanSrun(const StepCall& call, const std::vector<std::string>& words,
                          const std::vector<std::vector<int>>& machine, const StepIdentity& identity);
}  // namespace slurm

}  // namespace divvy::cli
