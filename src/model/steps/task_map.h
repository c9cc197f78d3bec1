// Chooses the GPUs and cores of each task of a step. It is a pure function, so the process that starts the tasks and
// the one that shows the map agree without communication.
//
// GPUs: isolation is per job, so a task may open every GPU of its job (NCCL and CUDA IPC need that). With a number of
// GPUs per task, each task sees its own GPUs first and then the others of the step. If it is bound to its own GPUs, it
// sees only those. Otherwise every task sees all GPUs of the step in the same order.
//
// Cores: a task with its own GPUs runs on all cores of their NUMA node. The cores of other jobs are unknown here, so a
// smaller set could overlap with them by chance. Memory follows, because the kernel allocates it on the node of the
// thread. If the user requests binding (cores, rank, map_cpu, mask_cpu), each task gets its own cores.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace divvy {

struct TaskDeal {
  int tasks = 1;
  int gpus_per_task = 0;  // 0: all tasks see all GPUs.
  int tasks_per_gpu = 0;  // 0: not requested.
  std::string gpu_bind;   // Slurm's syntax: none, single:N, per_task:N, map_gpu:..., mask_gpu:..., closest.
  int cpus_per_task = 0;  // 0: not requested. Used only if the user requests core binding.
  std::string cpu_bind;   // Slurm's syntax: none, cores, threads, rank, map_cpu:..., mask_cpu:..., ldoms, sockets.
};

/// The resources of a step on its node.
struct TaskGround {
  std::vector<int> gpu_numa_nodes;                // NUMA node of each GPU of the step; -1: not known.
  std::vector<int> cores;                         // Cores that the job may use, ascending. Empty: not known.
  std::vector<std::vector<int>> numa_node_cores;  // Cores of each NUMA node. Empty: not known.
};

struct TaskPlace {
  std::vector<std::size_t> own;   // Indices in the step's list of GPUs. Empty: it shares all of them.
  std::vector<std::size_t> seen;  // The GPUs that it sees, its own first.
  std::vector<int> cores;         // Ascending. Empty: all cores of the job.

  friend bool operator==(const TaskPlace&, const TaskPlace&) = default;
};

/// Chooses the GPUs and cores of each task of a step on its node. Returns one entry per task, by rank. The number of
/// the step's GPUs is ground.gpu_numa_nodes.size().
std::vector<TaskPlace> MapTasks(const TaskDeal& deal, const TaskGround& ground);

/// Parses a list of cores in the kernel's format: "0-3,8". Returns an empty list if `text` is invalid, and at most 4096
/// cores.
std::vector<int> ParseCoreList(std::string_view text);
std::string CoreListText(const std::vector<int>& cores);
/// "0xc" for cores 2 and 3.
std::string CoreMaskText(const std::vector<int>& cores);

}  // namespace divvy
