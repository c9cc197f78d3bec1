// Turns the request for a step into its tasks: their GPUs, cores, environment and files. Pure: everything else that it
// needs is an argument. shims/slurm/slurm_step_plan.h parses srun's words; steps.cc parses those of divvy run.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/steps/gang_file.h"
#include "model/steps/task_layout.h"
#include "model/steps/task_map.h"
#include "platform/steps/step_server.h"

namespace divvy::cli {

/// One GPU, as processes of the job see it.
struct StepGpu {
  std::string visible;   // Its entry in CUDA_VISIBLE_DEVICES.
  std::string physical;  // Its index on the node.
  int numa_node = -1;    // -1: not known.
};

/// The enclosing job, as described by its environment.
struct JobAround {
  std::string id;
  std::vector<StepGpu> gpus;
  std::vector<std::string> environment;  // NAME=value.
};
JobAround ReadJobAround(const std::vector<std::string>& environment);
/// Returns the value of the variable `name` in `environment`; "" if it is not set.
std::string EnvironmentValue(const std::vector<std::string>& environment, std::string_view name);

struct StepOptions {
  TaskDeal deal;  // Its number of tasks is for a job on one node.
  // For a job on several nodes.
  LayoutRequest layout;
  std::vector<std::string> machines;       // Requested nodes; each must get tasks. Empty: any.
  std::vector<std::string> task_hosts;     // The node of each task, in rank order; overrides `machines`. Empty: any.
  std::vector<std::string> left_out;       // Excluded nodes. Names of nodes that the job does not have are ignored.
  std::size_t first_machine = 0;           // The first node, in the order of the job, that may get tasks.
  std::optional<int> own_gpus_on_machine;  // Exclusive GPUs on each node; overrides own_gpus.
  /// How many of the job's GPUs the step wants exclusively. nullopt: it shares all of them with other steps.
  std::optional<int> own_gpus;
  bool overlaps = false;            // Gets its GPUs even if other steps use them.
  bool counts_cores = false;        // Wants deal.tasks * deal.cpus_per_task cores exclusively.
  bool is_immediate = false;        // Fails instead of waiting.
  bool quits_on_interrupt = false;  // The first Ctrl-C goes to the tasks.
  bool is_verbose = false;          // Reports its id and its nodes when it starts.
  std::string export_list;          // Slurm's --export; empty: ALL.
  /// By rank. A single command is used for every rank.
  std::vector<std::vector<std::string>> commands;
  std::string name;       // Shown in step lists. Empty: the program's name.
  std::string container;  // A ContainerPlan's text (model/container_plan.h); empty: none.
  std::string directory;  // Absolute; empty: the caller's.
  // Patterns as Slurm's (%t rank, %j job, %s step, %J job.step, %n node, %N host, %x name, %u user, %A %a array).
  // Empty: the caller's own streams. "none": /dev/null. A plain number: only that rank has the stream.
  std::string output;
  std::string error;  // Empty: same as the output.
  std::string input;
  bool appends = false;
  bool has_labels = false;  // "3: " before each line.
  bool has_terminal = false;
  bool kills_on_bad_exit = false;
  bool is_quiet = false;
  Duration wait{0};
  Duration time_limit{0};  // 0: no limit of its own.
  /// In a heterogeneous job: the request to each component in which the step runs, in rank order. Properties of the
  /// whole step (files, labels, ends) are in this struct, not in the parts.
  std::vector<StepOptions> parts;
  // Fields of such a part.
  std::size_t component = 0;
  std::vector<std::size_t> ranks;  // Ranks of its tasks on this node; SpreadComponents sets it.
  bool has_names = true;           // The environment gets names of ranks and nodes.
  bool preserves_counts = false;   // The caller's SLURM_NNODES, SLURM_NTASKS and SLURM_NPROCS stay.
  bool is_slurm = true;            // False: Slurm's variables stay unchanged, and torchrun's are set.
};

struct StepIdentity {
  std::string step;
  std::string hostname;
  std::string user;
  const GangFile* gang = nullptr;  // Null if the job is on one node.
  std::size_t node = 0;            // This node's number in the step.
};

/// The place of this node's tasks within the whole step: their ranks, and the other nodes of the step. By default the
/// step runs on this node only.
struct StepPlace {
  std::vector<std::size_t> ranks;     // Ranks of the tasks here. Empty: from 0 on.
  int tasks = 0;                      // Total on all nodes. 0: only those here.
  std::vector<std::string> machines;  // Nodes of the step. Empty: only this one.
  std::vector<int> counts;            // Tasks on each node.
  std::size_t node = 0;               // The index of this node.
  std::string master;                 // Host of rank 0. Empty: this node.
  bool is_part = false;               // The caller is on another node, which reads the input and gets the output.
  bool spreads = false;               // The caller is on this node, and other nodes have tasks too.

  std::size_t first_local = 0;  // Number of tasks of earlier components of the step that run on this node.

  std::size_t Rank(std::size_t task) const { return ranks.empty() ? task : ranks[task]; }
};

/// Returns this node's tasks of the step, each with its GPUs, cores, environment and files. `gpus`: the GPUs that the
/// step was granted; `ground` describes them.
std::vector<StepTask> MakeTasks(const StepOptions& ask, const JobAround& around, const std::vector<StepGpu>& gpus,
                                const TaskGround& ground, const StepIdentity& identity, const StepPlace& place = {});

/// Returns the error for a step that cannot start because of `why`, in the wording of the command that requested the
/// step (srun or divvy run).
Error CannotStart(const StepOptions& ask, const JobAround& around, const std::string& why);
/// Returns how many tasks of the step each node runs. The layout comes from `call` if another node planned the step and
/// this node only runs a part of it, else from `work_out`. Errors have the wording of CannotStart.
Result<TaskLayout> LayoutOf(const StepOptions& ask, const JobAround& around, const StepCall& call,
                            const std::function<Result<TaskLayout>()>& work_out);

/// Puts the nodes that `ask` names and excludes into `layout`, as positions in `node_indices`. `whose` describes these
/// nodes in errors ("the job's nodes").
Status TakeMachines(const StepOptions& ask, const GangFile& gang, std::span<const std::size_t> node_indices,
                    const std::string& whose, LayoutRequest& layout);
/// For a job on one node, called `node`: fails if the step requires another node, excludes this node or requests too
/// many nodes.
Status CheckOnlyMachine(const StepOptions& ask, const std::string& node);

/// For a job on several nodes: decides which of the step's tasks run here and which on other nodes. Reduces `ask` to
/// this node's share and puts the other nodes' work into `plan`.
Result<StepPlace> SpreadStep(StepOptions& ask, const JobAround& around, const StepCall& call,
                             const StepIdentity& identity, StepPlan& plan);
/// Like SpreadStep, for a step in several components of a heterogeneous job (ask.parts). Afterwards each part has only
/// this node's number of tasks, ranks and GPUs.
Result<StepPlace> SpreadComponents(StepOptions& ask, const JobAround& around, const StepCall& call,
                                   const StepIdentity& identity, StepPlan& plan);
/// Returns the environment with the variables of one component under their plain names: SLURM_NTASKS_HET_GROUP_1
/// becomes SLURM_NTASKS. Variables that only the first component has set are not used for others.
std::vector<std::string> EnvironmentOfComponent(std::vector<std::string> environment, std::size_t component);
/// Parses "0,2" or "all" for a job with that many components.
Result<std::vector<std::size_t>> ReadComponentList(std::string_view text, std::size_t components);
/// Returns the positions of a component's GPUs in around.gpus, the list of the job's GPUs on this node.
std::vector<std::size_t> PlacesOfComponent(const JobAround& around, const GangFile& gang, std::size_t component);
/// Reduces the tasks and the exclusive GPUs and cores in `ask` to the share of one node. `own`: this node's index in
/// layout.machines; nullopt if it runs no task.
void TakeShare(StepOptions& ask, const TaskLayout& layout, std::optional<std::size_t> own);
/// A node's name as in Slurm: without the domain.
std::string ShortName(const std::string& name);
std::string NameOf(const GangMember& member);
/// Adds to `spread` the output and error files that tasks on all nodes share, so that the caller's node opens them.
/// Files whose names differ by task or node are left out.
void PlaceFiles(const StepOptions& ask, const JobAround& around, const StepIdentity& identity, SpreadPlan& spread);
/// Returns the rank of the task that reads the caller's standard input: 0, or the rank that --input names. Nullopt if
/// no task reads it.
std::optional<std::size_t> InputRank(const StepOptions& ask, std::size_t tasks);
/// True if the file pattern contains the task or the node, so that each of them has a separate file. Each such file is
/// opened on the node of its task.
bool NamesMachineOrTask(std::string_view pattern);

/// For a call from another node: replaces the variables in the caller's environment that depend on the node
/// (CUDA_VISIBLE_DEVICES, SLURM_NODEID, ...) with their values on this node. `own` is the job's environment on this
/// node.
void MoveToMachine(StepCall& call, const std::vector<std::string>& own);

/// Plans a step: its tasks, and the resources and nodes that it needs. `machine`: the cores of each NUMA node of this
/// node.
Result<StepPlan> PlanStep(StepOptions ask, JobAround around, const StepCall& call,
                          const std::vector<std::vector<int>>& machine, const StepIdentity& identity);

/// Replaces the patterns (%t, %j, ...) in a file name with the values for the task of that rank.
std::string FillStepPattern(const std::string& pattern, const JobAround& around, const StepIdentity& identity,
                            std::size_t rank);

}  // namespace divvy::cli
