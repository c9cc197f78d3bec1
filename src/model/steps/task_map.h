// Which GPUs and which cores each task of a step gets. A pure function, so that who starts the tasks and who shows the
// map agree without a word between them.
//
// GPUs: isolation is per job, so a task may open every GPU of its job (NCCL and CUDA IPC need that). With a number of
// GPUs per task each finds its own first and the step's others behind; bound to its own it finds those alone; else
// every task finds all of the step's, in the same order.
//
// Cores: a task with GPUs of its own runs on the cores of their NUMA node, all of them: which cores another job runs on
// is not known here, so fewer would be shared by chance. Memory follows, for the kernel takes it from the node that a
// thread runs on. Asked for by name (cores, rank, map_cpu, mask_cpu) each task gets cores of its own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace divvy {

struct TaskDeal {
  int tasks = 1;
  int gpus_per_task = 0;  // 0: all tasks see all.
  int tasks_per_gpu = 0;  // 0: not asked.
  std::string gpu_bind;   // Slurm's words: none, single:N, per_task:N, map_gpu:..., mask_gpu:..., closest.
  int cpus_per_task = 0;  // 0: not asked. Counts only where cores are dealt out by name.
  std::string cpu_bind;   // Slurm's words: none, cores, threads, rank, map_cpu:..., mask_cpu:..., ldoms, sockets.
};

/// What the step runs on.
struct TaskGround {
  std::vector<int> gpu_numa_nodes;                // Of the step's GPUs, by place; -1: not known.
  std::vector<int> cores;                         // That the job may use, ascending; empty: not known.
  std::vector<std::vector<int>> numa_node_cores;  // By node; empty: not known.
};

struct TaskPlace {
  std::vector<std::size_t> own;   // Places in the step's list of GPUs; empty: it shares all of them.
  std::vector<std::size_t> seen;  // What it finds, its own first.
  std::vector<int> cores;         // Ascending; empty: all that the job has.

  friend bool operator==(const TaskPlace&, const TaskPlace&) = default;
};

/// One place for each task, by rank. The number of GPUs is ground.gpu_numa_nodes.size().
std::vector<TaskPlace> MapTasks(const TaskDeal& deal, const TaskGround& ground);

/// "0-3,8": as the kernel writes lists of cores. Empty for what is no such list. No more than 4096 cores.
std::vector<int> ParseCoreList(std::string_view text);
std::string CoreListText(const std::vector<int>& cores);
/// "0xc" of cores 2 and 3.
std::string CoreMaskText(const std::vector<int>& cores);

}  // namespace divvy
