// How a job's tasks share its resources. These options are stored as labels of the job, because only its step process
// reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

struct TaskOptions {
  int gpus_per_task = 0;  // 0: every task sees all GPUs.
  std::string gpu_bind;   // In the syntax of MapTasks() (model/steps/task_map.h).
  std::string cpu_bind;
  bool keeps_others = false;   // A failing task does not end the others.
  bool labels_output = false;  // Adds "3: " before each line.
  std::string components;      // "0,2", "all"; empty: not given.
  bool says_tasks = false;
};
TaskOptions ReadTaskOptions(const JobSpec& spec);

/// --gpus-per-task, --gpu-bind, --cpu-bind, --no-kill, --label-output.
void AddTaskOptions(std::vector<Option>& table, JobSpec& spec);

/// Sets the number of tasks, and records that --tasks was given. CompleteTasks then does not derive the number from
/// --nodes.
void SetTasks(JobSpec& spec, int tasks);

/// Fills in what follows from other options. Without --tasks, the job has one task per node. Without --gpus, the number
/// of GPUs is computed from --gpus-per-task. Tasks of a job without --nodes may be on any number of nodes. Calling it
/// twice is harmless.
void CompleteTasks(JobSpec& spec);
/// Checks that the tasks have enough GPUs.
Status CheckTasks(const JobSpec& spec);

/// True if divvy starts the job's command once per task: for a command with several tasks, or a heterogeneous job, that
/// was submitted with divvy's own options. Scripts are started once and start their tasks themselves, as in Slurm.
bool StartsTasks(const JobSpec& spec);

/// The command for the job's first process that starts `command` once per task of the job. `divvy` is the path of the
/// program.
std::vector<std::string> TaskStarter(const std::string& divvy, const JobSpec& spec,
                                     const std::vector<std::string>& command);

/// True if the file pattern contains the number of the task (%t), so that each task has a separate file.
bool NamesTask(std::string_view pattern);

}  // namespace divvy::dialect
