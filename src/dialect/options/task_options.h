// How a job's tasks share what it has: options that the job takes along as labels, because its step process reads them
// and nobody else does.
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
  std::string gpu_bind;   // As MapTasks() reads it (model/steps/task_map.h).
  std::string cpu_bind;
  bool keeps_others = false;   // A task that fails does not end the others.
  bool labels_output = false;  // "3: " before each line.
  std::string components;      // "0,2", "all"; empty: not said.
  bool says_tasks = false;
};
TaskOptions ReadTaskOptions(const JobSpec& spec);

/// --gpus-per-task, --gpu-bind, --cpu-bind, --no-kill, --label-output.
void AddTaskOptions(std::vector<Option>& table, JobSpec& spec);

/// --tasks was given: then --nodes says nothing of them.
void SetTasks(JobSpec& spec, int tasks);

/// A task for each machine, where --tasks does not say how many; and the GPUs of all tasks, where --gpus does not:
/// those of a job that names no number of machines may lie on as many as it takes. Calling it twice does no harm.
void CompleteTasks(JobSpec& spec);
/// That they have GPUs enough.
Status CheckTasks(const JobSpec& spec);

/// A command that is started once for each task, rather than once: a native job of several. Scripts are started once,
/// as in Slurm, and start tasks themselves.
bool StartsTasks(const JobSpec& spec);

/// `command`, started once for each task of the job by the program `divvy` (its path). Words for the job's first
/// process.
std::vector<std::string> TaskStarter(const std::string& divvy, const JobSpec& spec,
                                     const std::vector<std::string>& command);

/// True where the pattern of a file names the task: each task has a file of its own.
bool NamesTask(std::string_view pattern);

}  // namespace divvy::dialect
