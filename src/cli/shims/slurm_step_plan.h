// From srun's words and the environment of the job around it to the tasks of a step. Pure: what it needs of the world
// is an argument.
//
// GPUs: isolation is per job, so a task may open all GPUs of its job (NCCL and CUDA IPC need it). With --gpus-per-task
// each task finds its own first in CUDA_VISIBLE_DEVICES and the step's others behind; with --gpu-bind=single, per_task
// or map it finds its own alone; otherwise every task finds all of the step's, in the same order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_steps.h"
#include "model/job.h"

namespace divvy::cli::slurm {

/// One GPU as the job around sees it.
struct StepGpu {
  std::string visible;   // Its word in CUDA_VISIBLE_DEVICES.
  std::string physical;  // Its index on the server.
};

/// The job around, from its environment.
struct JobAround {
  std::string id;
  std::vector<StepGpu> gpus;
  std::vector<std::string> environment;  // NAME=value.
};
JobAround ReadJobAround(const std::vector<std::string>& environment);
/// True inside a job of divvy's; another Slurm's job does not count.
bool IsInsideJob(const std::vector<std::string>& environment);
/// The value of NAME; "" when it is not set.
std::string EnvironmentValue(const std::vector<std::string>& environment, std::string_view name);

struct StepAsk {
  int tasks = 1;
  /// How many of the job's GPUs the step wants for itself; nothing: it shares all of them with other steps.
  std::optional<int> own_gpus;
  int gpus_per_task = 0;    // 0: all tasks see all.
  int tasks_per_gpu = 0;    // --ntasks-per-gpu; 0: not asked.
  std::string bind;         // --gpu-bind.
  std::string export_list;  // --export; empty: ALL.
};
/// `spec` holds srun's options as SbatchOptions leaves them; what they do not say comes from the job's environment.
Result<StepAsk> ReadStepAsk(JobSpec& spec, const JobAround& around);

struct StepIdentity {
  std::string step;
  std::string hostname;
};
/// The environment of each task. `gpus` are those that the step got.
std::vector<StepTask> MakeTasks(const StepAsk& ask, const JobAround& around, const std::vector<StepGpu>& gpus,
                                const StepIdentity& identity, const std::vector<std::string>& command);

/// --multi-prog: each rank's command from lines "RANKS COMMAND..."; "*" is every other rank, %t the rank, %o its place
/// among the line's ranks.
Result<std::vector<std::vector<std::string>>> ReadMultiProg(std::string_view text, int tasks);

}  // namespace divvy::cli::slurm
