// From what a step asks, whichever door it came through, to its tasks: their GPUs, cores, environment and files. Pure:
// what it needs of the world is an argument. srun's words are read in shims/slurm_step_plan.h, those of divvy run in
// steps.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/task_map.h"
#include "platform/step_server.h"

namespace divvy::cli {

/// One GPU as the job around sees it.
struct StepGpu {
  std::string visible;   // Its word in CUDA_VISIBLE_DEVICES.
  std::string physical;  // Its index on the server.
  int numa_node = -1;    // -1: not known.
};

/// The job around, from its environment.
struct JobAround {
  std::string id;
  std::vector<StepGpu> gpus;
  std::vector<std::string> environment;  // NAME=value.
};
JobAround ReadJobAround(const std::vector<std::string>& environment);
/// The value of NAME; "" when it is not set.
std::string EnvironmentValue(const std::vector<std::string>& environment, std::string_view name);

struct StepAsk {
  TaskDeal deal;
  /// How many of the job's GPUs the step wants for itself; nothing: it shares all of them with other steps.
  std::optional<int> own_gpus;
  bool overlaps = false;      // Takes them even where others have them.
  bool counts_cores = false;  // It wants deal.tasks * deal.cpus_per_task cores for itself.
  bool is_immediate = false;  // Fails rather than waits.
  std::string export_list;    // Slurm's --export; empty: ALL.
  /// By rank; a single one is every rank's.
  std::vector<std::vector<std::string>> commands;
  std::string container;  // A ContainerPlan's text (model/container_plan.h); empty: none.
  std::string directory;  // Absolute; empty: the caller's.
  // Patterns as Slurm's (%t rank, %j job, %s step, %J job.step, %n node, %N host, %x name, %u user, %A %a array).
  // Empty: the caller's own streams. "none": /dev/null; a plain number: that rank's stream alone.
  std::string output;
  std::string error;  // Empty: joins the output.
  std::string input;
  bool appends = false;
  bool has_labels = false;  // "3: " before each line.
  bool has_terminal = false;
  bool kills_on_bad_exit = false;
  bool is_quiet = false;
  Duration wait{0};
  bool is_slurm = true;  // Else Slurm's variables stay as they are, and torchrun's are set.
};

struct StepIdentity {
  std::string step;
  std::string hostname;
  std::string user;
};
/// `gpus` are those that the step got, `ground` is about them.
std::vector<StepTask> MakeTasks(const StepAsk& ask, const JobAround& around, const std::vector<StepGpu>& gpus,
                                const TaskGround& ground, const StepIdentity& identity);

/// `machine`: the cores of each NUMA node.
Result<StepPlan> PlanStep(StepAsk ask, JobAround around, const StepCall& call,
                          const std::vector<std::vector<int>>& machine, const StepIdentity& identity);

/// A file's name with the patterns filled for one rank.
std::string FillStepPattern(const std::string& pattern, const JobAround& around, const StepIdentity& identity,
                            std::size_t rank);

}  // namespace divvy::cli
