// From what a step asks, whichever door it came through, to its tasks: their GPUs, cores, environment and files. Pure:
// what it needs of the world is an argument. srun's words are read in shims/slurm_step_plan.h, those of divvy run in
// steps.cc.
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
  TaskDeal deal;  // Its number of tasks is that of a job on one machine.
  // Of a job on several machines.
  LayoutAsk layout;
  std::vector<std::string> machines;       // That it names; each has a part. Empty: any.
  std::vector<std::string> left_out;       // That it names to have none; those of other jobs say nothing.
  std::size_t first_machine = 0;           // Those of the job before this one have none.
  std::optional<int> own_gpus_on_machine;  // For itself on each machine; goes before own_gpus.
  /// How many of the job's GPUs the step wants for itself; nothing: it shares all of them with other steps.
  std::optional<int> own_gpus;
  bool overlaps = false;      // Takes them even where others have them.
  bool counts_cores = false;  // It wants deal.tasks * deal.cpus_per_task cores for itself.
  bool is_immediate = false;  // Fails rather than waits.
  std::string export_list;    // Slurm's --export; empty: ALL.
  /// By rank; a single one is every rank's.
  std::vector<std::vector<std::string>> commands;
  std::string name;       // For lists of steps; empty: its program's.
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
  /// In a heterogeneous job: what it asks of each of the components that it runs in, in the order of its ranks. What is
  /// said of the whole step (files, labels, ends) is said here, and not by them.
  std::vector<StepAsk> parts;
  // Of such a part.
  std::size_t component = 0;
  std::vector<std::size_t> ranks;  // Of its tasks here; SpreadComponents fills it in.
  bool has_names = true;           // Of ranks and machines, in the environment.
  bool is_slurm = true;            // Else Slurm's variables stay as they are, and torchrun's are set.
};

struct StepIdentity {
  std::string step;
  std::string hostname;
  std::string user;
  const GangFile* gang = nullptr;  // Null: the job is on one machine.
  std::size_t node = 0;            // This machine's number in the step.
};

/// What a step's tasks on this machine know of the others. By default there are none.
struct StepPlace {
  std::vector<std::size_t> ranks;     // Of the tasks here; empty: from 0 on.
  int tasks = 0;                      // On all machines; 0: those here.
  std::vector<std::string> machines;  // Of the step; empty: this one alone.
  std::vector<int> counts;            // Tasks on each.
  std::size_t node = 0;               // Which of them this is.
  std::string master;                 // Where rank 0 runs; empty: here.
  bool is_part = false;               // Called elsewhere: what the caller would read and write goes there.
  bool spreads = false;               // Called here, and has tasks elsewhere.

  std::size_t first_local = 0;  // Tasks of other parts of the step that run here before these.

  std::size_t Rank(std::size_t task) const { return ranks.empty() ? task : ranks[task]; }
};

/// `gpus` are those that the step got, `ground` is about them.
std::vector<StepTask> MakeTasks(const StepAsk& ask, const JobAround& around, const std::vector<StepGpu>& gpus,
                                const TaskGround& ground, const StepIdentity& identity, const StepPlace& place = {});

/// A step of a job on several machines that cannot be started, in the words of the command that asks for it.
Error CannotStart(const StepAsk& ask, const JobAround& around, const std::string& why);
/// The layout of such a step: what its caller has worked out, where this is a part of it, else what `work_out` says.
Result<TaskLayout> LayoutOf(const StepAsk& ask, const JobAround& around, const StepCall& call,
                            const std::function<Result<TaskLayout>()>& work_out);

/// The machines that `ask` names and leaves out, into `layout`: as places in `seats`, which are `whose` of the job.
Status TakeMachines(const StepAsk& ask, const GangFile& gang, std::span<const std::size_t> seats,
                    const std::string& whose, LayoutAsk& layout);
/// Of a job on one machine, which is called so: whether a step may ask for the machines that it does.
Status CheckOnlyMachine(const StepAsk& ask, const std::string& node);

/// Of a job on several machines: which of the step's tasks run here and which elsewhere. Leaves in `ask` what is this
/// machine's, and in `plan` what the others are to do.
Result<StepPlace> SpreadStep(StepAsk& ask, const JobAround& around, const StepCall& call, const StepIdentity& identity,
                             StepPlan& plan);
/// The same of a step in parts: each part's number of tasks, ranks and GPUs are those of this machine then.
Result<StepPlace> SpreadComponents(StepAsk& ask, const JobAround& around, const StepCall& call,
                                   const StepIdentity& identity, StepPlan& plan);
/// The environment with the variables of one component under their plain names: SLURM_NTASKS_HET_GROUP_1 as
/// SLURM_NTASKS. What the first component alone has said is not another's.
std::vector<std::string> EnvironmentOfComponent(std::vector<std::string> environment, std::size_t component);
/// "0,2" or "all" of a job with so many components.
Result<std::vector<std::size_t>> ReadComponentList(std::string_view text, std::size_t components);
/// Places of a component's GPUs in the job's list on this machine.
std::vector<std::size_t> PlacesOfComponent(const JobAround& around, const GangFile& gang, std::size_t component);
/// What this machine's tasks of a layout are to have for themselves.
void TakeShare(StepAsk& ask, const TaskLayout& layout, std::optional<std::size_t> own);
/// A machine's name as Slurm has it: without the domain.
std::string ShortName(const std::string& name);
std::string NameOf(const GangSeat& seat);
/// Output of tasks elsewhere that is one file, for this machine.
void PlaceFiles(const StepAsk& ask, const JobAround& around, const StepIdentity& identity, SpreadPlan& spread);
/// Who reads what the caller reads; nothing: nobody.
std::optional<std::size_t> InputRank(const StepAsk& ask, std::size_t tasks);
/// True where a file's name is another one for each task or machine: such files are on the machine of their task.
bool NamesMachineOrTask(std::string_view pattern);

/// The job's words in a call from elsewhere, as they are on this machine: `own` is the environment that the job has
/// here, the call's own is the caller's.
void MoveToMachine(StepCall& call, const std::vector<std::string>& own);

/// `machine`: the cores of each NUMA node.
Result<StepPlan> PlanStep(StepAsk ask, JobAround around, const StepCall& call,
                          const std::vector<std::vector<int>>& machine, const StepIdentity& identity);

/// A file's name with the patterns filled for one rank.
std::string FillStepPattern(const std::string& pattern, const JobAround& around, const StepIdentity& identity,
                            std::size_t rank);

}  // namespace divvy::cli
