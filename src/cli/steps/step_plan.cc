#include "cli/steps/step_plan.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>

#include "base/text.h"
#include "dialect/options/slurm_hostlist.h"
#include "model/container_plan.h"
#include "model/steps/gang_environment.h"
#include "model/steps/step_list.h"

namespace divvy::cli {
namespace {

std::vector<std::string> ListItems(const std::string& list) {
  std::vector<std::string> words;
  for (const std::string_view item : Split(list, ',')) {
    if (!item.empty()) words.emplace_back(item);
  }
  return words;
}

class Environment {
 public:
  explicit Environment(const std::vector<std::string>& entries) {
    for (const std::string& entry : entries) {
      const auto equals = entry.find('=');
      if (equals != std::string::npos) values_[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  void Set(const std::string& name, std::string value) { values_[name] = std::move(value); }
  void SetUnlessGiven(const std::string& name, std::string value) { values_.try_emplace(name, std::move(value)); }
  std::string Get(const std::string& name) const {
    const auto at = values_.find(name);
    return at == values_.end() ? std::string() : at->second;
  }
  /// --export: keeps the variables that it names and those that define the job.
  void Restrict(const std::string& list) {
    bool keeps_all = list.empty();
    std::set<std::string, std::less<>> kept;
    std::vector<std::pair<std::string, std::string>> set;
    for (const std::string& item : ListItems(list)) {
      const auto equals = item.find('=');
      if (equals != std::string::npos) {
        set.emplace_back(item.substr(0, equals), item.substr(equals + 1));
      } else if (EqualsIgnoringCase(item, "all")) {
        keeps_all = true;
      } else {
        kept.insert(item);
      }
    }
    if (!keeps_all) {
      std::erase_if(values_, [&](const auto& entry) {
        const std::string& name = entry.first;
        return !kept.contains(name) && name != "PATH" && name != "HOME" && name != "USER" &&
               !name.starts_with("SLURM_") && !name.starts_with("CUDA_") && !name.starts_with("DIVVY_");
      });
    }
    for (auto& [name, value] : set) values_[name] = std::move(value);
  }
  std::vector<std::string> Entries() const {
    std::vector<std::string> entries;
    entries.reserve(values_.size());
    for (const auto& [name, value] : values_) entries.push_back(name + "=" + value);
    return entries;
  }

 private:
  std::map<std::string, std::string> values_;
};

std::string JoinGpus(const std::vector<StepGpu>& gpus, const std::vector<std::size_t>& places,
                     std::string StepGpu::*field, std::string_view separator = ",") {
  std::vector<std::string> words;
  for (const std::size_t place : places) words.push_back(gpus[place].*field);
  return Join(words, separator);
}

void AddGpuWords(const StepOptions& ask, const std::vector<StepGpu>& gpus, const TaskPlace& place, Environment& out) {
  std::vector<std::size_t> all;
  for (std::size_t at = 0; at < gpus.size(); ++at) all.push_back(at);
  const std::string own = JoinGpus(gpus, place.own.empty() ? all : place.own, &StepGpu::physical);
  out.Set("CUDA_VISIBLE_DEVICES", JoinGpus(gpus, place.seen, &StepGpu::visible));
  out.Set("DIVVY_TASK_GPUS", own);
  if (!ask.is_slurm) return;
  out.Set("SLURM_STEP_GPUS", own);
  out.Set("SLURM_GPUS_ON_NODE", std::to_string(gpus.size()));
}

/// Adds Slurm's variables about the job. They are missing only in jobs that were submitted with divvy's own commands.
void AddJobWords(const JobAround& around, const StepIdentity& identity, Environment& out) {
  std::vector<std::string> machines;
  if (identity.gang == nullptr) machines.push_back(ShortName(identity.hostname));
  else
    std::ranges::transform(identity.gang->members, std::back_inserter(machines),
                           [](const GangMember& member) { return NameOf(member); });
  const std::string count = std::to_string(machines.size());
  const std::string list = dialect::FoldHostList(machines);
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID"}) out.SetUnlessGiven(name, around.id);
  for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) out.SetUnlessGiven(name, list);
  for (const char* name : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) out.SetUnlessGiven(name, count);
}

/// Adds the variables that have the same value for all tasks on this node.
void AddStepWords(const StepOptions& ask, const JobAround& around, const StepIdentity& identity, const StepPlace& place,
                  Environment& out) {
  const std::string count = std::to_string(place.tasks > 0 ? place.tasks : ask.deal.tasks);
  const std::string nodes = std::to_string(std::max<std::size_t>(place.machines.size(), 1));
  out.Set("DIVVY_STEP", identity.step);
  out.Set("DIVVY_TASKS", count);
  if (identity.gang != nullptr) {
    out.Set("DIVVY_NODE_RANK", std::to_string(identity.gang->own));
    out.Set("NODE_RANK", std::to_string(identity.node));
    out.Set("NNODES", nodes);
  }
  if (!ask.is_slurm) return;
  std::vector<std::string> ranks;
  for (std::size_t task = 0; task < static_cast<std::size_t>(ask.deal.tasks); ++task)
    ranks.push_back(std::to_string(place.Rank(task)));
  const std::string each = place.counts.empty() ? count : CountsText(place.counts);
  out.Set("SLURM_STEP_NUM_TASKS", count);
  for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"}) {
    if (ask.preserves_counts) out.SetUnlessGiven(name, count);
    else out.Set(name, count);
  }
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) out.Set(name, each);
  out.Set("SLURM_STEP_ID", identity.step);
  out.Set("SLURM_STEPID", identity.step);
  out.Set("SLURM_STEP_NUM_NODES", nodes);
  out.Set("SLURM_STEP_NODELIST",
          place.machines.empty() ? ShortName(identity.hostname) : dialect::FoldHostList(place.machines));
  out.Set("SLURM_NODEID", std::to_string(identity.node));
  out.Set("SLURM_GTIDS", Join(ranks, ","));
  const std::string launcher = place.master.empty() ? "127.0.0.1" : place.master;
  out.Set("SLURM_LAUNCH_NODE_IPADDR", launcher);
  out.Set("SLURM_SRUN_COMM_HOST", launcher);
  out.Set("SLURM_DISTRIBUTION", !ask.task_hosts.empty() || !ask.layout.node_of_rank.empty() ? "arbitrary"
                                : ask.layout.is_cyclic                                      ? "cyclic"
                                                                                            : "block");
  out.Set("SLURMD_NODENAME", ShortName(identity.hostname));
  if (identity.gang != nullptr && !ask.preserves_counts) out.Set("SLURM_NNODES", nodes);
  AddJobWords(around, identity, out);
}

/// The cores that the tasks here are bound to, under srun's names: one mask per task. Memory is never bound, whatever
/// --mem-bind says. SLURM_SRUN_COMM_PORT is not set, because no process of divvy listens for messages of the tasks.
void AddBindWords(const std::vector<TaskPlace>& places, Environment& out) {
  std::vector<std::string> masks;
  for (const TaskPlace& place : places) {
    if (!place.cores.empty()) masks.push_back(CoreMaskText(place.cores));
  }
  const std::string type = masks.empty() ? "none" : "mask_cpu:";
  const std::string list = Join(masks, ",");
  out.Set("SLURM_CPU_BIND", "quiet," + type + list);
  out.Set("SLURM_CPU_BIND_TYPE", type);
  out.Set("SLURM_CPU_BIND_LIST", list);
  out.Set("SLURM_CPU_BIND_VERBOSE", "quiet");
  out.Set("SLURM_MEM_BIND", "quiet,none");
  out.Set("SLURM_MEM_BIND_TYPE", "none");
  out.Set("SLURM_MEM_BIND_LIST", "");
  out.Set("SLURM_MEM_BIND_VERBOSE", "quiet");
}

/// The address where the ranks meet rank 0. The user's own variables stay. The job's variables are replaced, because
/// each step has its own address.
void AddMaster(const JobAround& around, const StepIdentity& identity, const StepPlace& place, Environment& out) {
  const auto number = [](const std::string& text) {
    return static_cast<std::uint64_t>(ParseInteger(text).value_or(0));
  };
  const std::string port = std::to_string(GangPort(number(around.id), number(identity.step)));
  if (identity.gang != nullptr) {
    const std::string jobs = std::to_string(GangPort(identity.gang->job, 0));
    const bool is_jobs = EnvironmentValue(around.environment, "MASTER_PORT") == jobs;
    if (is_jobs || EnvironmentValue(around.environment, "MASTER_ADDR").empty()) {
      out.Set("MASTER_ADDR", place.master.empty() ? "127.0.0.1" : place.master);
      out.Set("MASTER_PORT", port);
    }
  }
  out.SetUnlessGiven("MASTER_ADDR", "127.0.0.1");
  out.SetUnlessGiven("MASTER_PORT", port);
}

/// torchrun's variables for its workers. A task that finds its own GPU first in CUDA_VISIBLE_DEVICES is the only worker
/// that uses that list. Its LOCAL_RANK must then name that GPU, as programs expect.
void AddTorchWords(const StepOptions& ask, const JobAround& around, const StepIdentity& identity,
                   const StepPlace& place, std::size_t task, bool has_own, Environment& out) {
  const std::string here = std::to_string(ask.deal.tasks);
  out.Set("RANK", std::to_string(place.Rank(task)));
  out.Set("WORLD_SIZE", place.tasks > 0 ? std::to_string(place.tasks) : here);
  out.Set("LOCAL_RANK", has_own ? "0" : std::to_string(task));
  out.Set("LOCAL_WORLD_SIZE", has_own ? "1" : here);
  out.Set("NNODES", std::to_string(std::max<std::size_t>(place.machines.size(), 1)));
  out.Set("NODE_RANK", std::to_string(identity.node));
  AddMaster(around, identity, place, out);
  // A single task per node may be torchrun itself, which starts the workers there. It reads these variables as its
  // options.
  const bool is_one_each = ask.deal.tasks == 1 && place.tasks == static_cast<int>(place.machines.size());
  if (identity.gang == nullptr || !is_one_each) return;
  for (const char* name : {"NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"})
    out.SetUnlessGiven("PET_" + std::string(name), out.Get(name));
}

bool IsNumber(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Decides where the tasks' streams go. The first of several tasks that share a file truncates it.
class StreamPlacer {
 public:
  StreamPlacer(const StepOptions& ask, const JobAround& around, const StepIdentity& identity, const StepPlace& place)
      : ask_(ask), around_(around), identity_(identity), place_(place) {}

  void Place(std::size_t rank, std::array<StepStream, 3>& streams) {
    streams[0] = Input(rank);
    streams[1] = Output(rank, ask_.output);
    const bool joins = ask_.error.empty() && !ask_.output.empty() && ask_.output != "all";
    streams[2] = joins ? StepStream{StepStream::Kind::kOutput, "", false} : Output(rank, ask_.error);
  }

 private:
  StepStream Input(std::size_t rank) const {
    const std::string& input = ask_.input;
    // Only one task can read a terminal: rank 0, or the rank that --input names.
    const bool is_own = input.empty() || input == "all" ? rank == 0 : input == std::to_string(rank);
    if (is_own) return {place_.is_part ? StepStream::Kind::kLabelled : StepStream::Kind::kCaller, "", false};
    if (input.empty() || input == "all" || input == "none" || IsNumber(input))
      return {StepStream::Kind::kNothing, "", false};
    return {StepStream::Kind::kFile, FillStepPattern(input, around_, identity_, rank), false};
  }

  StepStream Output(std::size_t rank, const std::string& output) {
    const bool is_rank = IsNumber(output);
    if (output == "none" || (is_rank && output != std::to_string(rank))) return {StepStream::Kind::kNothing, "", false};
    if (output.empty() || output == "all" || is_rank)
      return {ask_.has_labels || place_.is_part ? StepStream::Kind::kLabelled : StepStream::Kind::kCaller, "", false};
    // A file for tasks of several nodes is on the caller's node, which has already opened it.
    const bool is_shared = !NamesMachineOrTask(output);
    if (is_shared && place_.is_part) return {StepStream::Kind::kLabelled, "", false};
    std::string path = FillStepPattern(output, around_, identity_, rank);
    const bool truncates = !ask_.appends && !(is_shared && place_.spreads) && emptied_.insert(path).second;
    return {StepStream::Kind::kFile, std::move(path), truncates};
  }

  const StepOptions& ask_;
  const JobAround& around_;
  const StepIdentity& identity_;
  const StepPlace& place_;
  std::set<std::string> emptied_;
};

TaskGround GroundOf(const std::vector<StepGpu>& gpus, const std::vector<int>& cores,
                    const std::vector<std::vector<int>>& machine) {
  TaskGround ground{{}, cores, machine};
  for (const StepGpu& gpu : gpus) ground.gpu_numa_nodes.push_back(gpu.numa_node);
  return ground;
}

/// `ranks`: the ranks of the tasks here; empty: they count from 0. `node_index`: this node's number, for a job on
/// several nodes.
std::vector<StepTaskLine> MapLines(const StepOptions& ask, const std::vector<StepGpu>& gpus, const TaskGround& ground,
                                   const std::vector<std::size_t>& ranks, std::optional<std::size_t> node_index) {
  constexpr std::size_t kMapMost = 256;  // More would make a line of the list too long.
  std::vector<StepTaskLine> lines;
  bool says_something = node_index.has_value();  // The node is worth showing.
  for (const TaskPlace& place : MapTasks(ask.deal, ground)) {
    if (lines.size() == kMapMost) break;
    const std::size_t rank = lines.size() < ranks.size() ? ranks[lines.size()] : lines.size();
    lines.push_back({JoinGpus(gpus, place.own, &StepGpu::physical, "+"), CoreListText(place.cores), rank, node_index});
    says_something = says_something || !place.own.empty() || !place.cores.empty();
  }
  if (!says_something) lines.clear();
  return lines;
}

std::optional<std::size_t> NodeIndexOf(const StepIdentity& identity) {
  return identity.gang == nullptr ? std::nullopt : std::optional(identity.gang->own);
}

/// Which of the job's GPUs the tasks here may use, given the GPUs that the step was granted. GPUs are positions in the
/// job's list.
struct PlacesHere {
  std::vector<std::size_t> all;  // The GPUs of one part.
  bool takes_all = true;         // Also GPUs that were not granted, because the step shares them.

  std::vector<std::size_t> Of(const std::vector<std::size_t>& granted) const {
    std::vector<std::size_t> places = all;
    if (!takes_all)
      std::erase_if(places, [&](std::size_t place) { return std::ranges::find(granted, place) == granted.end(); });
    return places;
  }
};

/// Returns one entry per component in which the step runs (ask.parts); a single entry if the job is not heterogeneous.
std::vector<PlacesHere> PlacesOf(const StepOptions& ask, const JobAround& around, const StepIdentity& identity) {
  std::vector<PlacesHere> places;
  for (const StepOptions& part : ask.parts) {
    PlacesHere& its = places.emplace_back();
    if (part.ranks.empty()) continue;
    its.all = PlacesOfComponent(around, *identity.gang, part.component);
    its.takes_all = !part.own_gpus;
  }
  if (!ask.parts.empty()) return places;
  PlacesHere& its = places.emplace_back();
  for (std::size_t place = 0; place < around.gpus.size(); ++place) its.all.push_back(place);
  its.takes_all = false;
  return places;
}

std::vector<StepGpu> GpusAt(const JobAround& around, const std::vector<std::size_t>& places) {
  std::vector<StepGpu> gpus;
  for (const std::size_t place : places) {
    if (place < around.gpus.size()) gpus.push_back(around.gpus[place]);
  }
  return gpus;
}

/// Makes the tasks of a step with parts; each part uses the GPUs of its own component.
StepTasks MakeParts(const StepOptions& ask, const JobAround& around, const std::vector<PlacesHere>& places,
                    const std::vector<std::size_t>& granted, const TaskGround& ground, const StepIdentity& identity,
                    const StepPlace& whole) {
  StepTasks out;
  for (std::size_t i = 0; i < ask.parts.size(); ++i) {
    const StepOptions& part = ask.parts[i];
    if (part.ranks.empty()) continue;
    const std::vector<StepGpu> gpus = GpusAt(around, places[i].Of(granted));
    JobAround its = around;
    its.environment = EnvironmentOfComponent(std::move(its.environment), part.component);
    its.environment.push_back("DIVVY_COMPONENT=" + std::to_string(part.component));
    StepPlace place = whole;
    place.ranks = part.ranks;
    place.first_local = out.ranks.size();
    const TaskGround of_part = GroundOf(gpus, ground.cores, ground.numa_node_cores);
    for (StepTask& task : MakeTasks(part, its, gpus, of_part, identity, place)) out.tasks.push_back(std::move(task));
    for (StepTaskLine& line : MapLines(part, gpus, of_part, part.ranks, NodeIndexOf(identity)))
      out.map.push_back(std::move(line));
    out.ranks.insert(out.ranks.end(), part.ranks.begin(), part.ranks.end());
  }
  return out;
}

}  // namespace

std::string EnvironmentValue(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return "";
}

JobAround ReadJobAround(const std::vector<std::string>& environment) {
  JobAround around;
  around.environment = environment;
  around.id = EnvironmentValue(environment, "SLURM_JOB_ID");
  if (around.id.empty()) around.id = EnvironmentValue(environment, "DIVVY_JOB_ID");
  const std::vector<std::string> visible = ListItems(EnvironmentValue(environment, "CUDA_VISIBLE_DEVICES"));
  std::vector<std::string> physical = ListItems(EnvironmentValue(environment, "SLURM_JOB_GPUS"));
  if (physical.empty()) physical = ListItems(EnvironmentValue(environment, "DIVVY_GPUS"));
  const std::vector<std::string> numa = ListItems(EnvironmentValue(environment, "DIVVY_GPU_NUMA"));
  // A script may have reduced CUDA_VISIBLE_DEVICES by hand. Then only the job's own list has all GPUs.
  const bool is_narrowed = !physical.empty() && visible.size() != physical.size();
  // If the job cannot open other jobs' GPUs, CUDA numbers the job's own from 0.
  const std::vector<std::string> counted = ListItems(EnvironmentValue(environment, "DIVVY_CUDA_INDICES"));
  const std::vector<std::string>& all = counted.size() == physical.size() ? counted : physical;
  const std::vector<std::string>& words = is_narrowed ? all : visible;
  for (std::size_t i = 0; i < words.size(); ++i) {
    StepGpu gpu{words[i], physical.empty() ? words[i] : physical[i], -1};
    if (numa.size() == words.size()) gpu.numa_node = static_cast<int>(ParseInteger(numa[i]).value_or(-1));
    around.gpus.push_back(std::move(gpu));
  }
  return around;
}

std::vector<StepTask> MakeTasks(const StepOptions& ask, const JobAround& around, const std::vector<StepGpu>& gpus,
                                const TaskGround& ground, const StepIdentity& identity, const StepPlace& place) {
  Environment base(around.environment);
  base.Restrict(ask.export_list);
  if (ask.has_names) AddStepWords(ask, around, identity, place, base);
  StreamPlacer placer(ask, around, identity, place);
  const std::vector<TaskPlace> places = MapTasks(ask.deal, ground);
  if (ask.has_names && ask.is_slurm) AddBindWords(places, base);
  std::vector<StepTask> tasks(places.size());
  for (std::size_t local = 0; local < tasks.size(); ++local) {
    StepTask& task = tasks[local];
    const std::size_t rank = place.Rank(local);
    Environment own = base;
    if (ask.has_names) {
      own.Set("DIVVY_TASK", std::to_string(rank));
      if (ask.is_slurm) {
        own.Set("SLURM_PROCID", std::to_string(rank));
        own.Set("SLURM_LOCALID", std::to_string(place.first_local + local));
        if (identity.gang != nullptr) AddMaster(around, identity, place, own);
      } else {
        AddTorchWords(ask, around, identity, place, local, !places[local].own.empty(), own);
      }
    }
    // A job without GPUs keeps the GPU variables from its own start.
    if (!around.gpus.empty()) AddGpuWords(ask, gpus, places[local], own);
    task.command = ask.commands.size() == 1 ? ask.commands.front() : ask.commands[rank];
    if (!ask.container.empty()) {
      own.Set(std::string(kContainerVariable), ask.container);
      // The step process and its child processes run the program divvy (/proc/self/exe).
      task.command.insert(task.command.begin(), {"/proc/self/exe", "internal-container", "--"});
    }
    task.environment = own.Entries();
    task.directory = ask.directory;
    task.cores = places[local].cores;
    placer.Place(rank, task.streams);
  }
  return tasks;
}

Result<StepPlan> PlanStep(StepOptions ask, JobAround around, const StepCall& call,
                          const std::vector<std::vector<int>>& machine, const StepIdentity& identity) {
  StepPlan plan;
  plan.program = ask.is_slurm ? "srun" : "divvy";
  plan.name = around.id;
  if (ask.directory.empty()) ask.directory = call.directory;
  if (!ask.directory.starts_with('/')) ask.directory = call.directory + "/" + ask.directory;
  StepPlace place;
  StepIdentity here = identity;
  if (identity.gang != nullptr) {
    here.hostname = identity.gang->members[identity.gang->own].name();
    if (ask.parts.empty()) {
      DIVVY_TRY(place, SpreadStep(ask, around, call, here, plan));
    } else {
      DIVVY_TRY(place, SpreadComponents(ask, around, call, here, plan));
    }
    here.node = place.node;
  } else {
    const std::string node = EnvironmentValue(around.environment, "DIVVY_NODE");
    if (!node.empty()) here.hostname = node;
    const Status is_there = CheckOnlyMachine(ask, here.hostname);
    if (!is_there) return CannotStart(ask, around, is_there.error().message);
  }
  plan.host = here.hostname;
  if (ask.own_gpus) plan.need.gpus = static_cast<std::size_t>(*ask.own_gpus);
  if (ask.counts_cores) plan.need.cores = ask.deal.tasks * std::max(ask.deal.cpus_per_task, 1);
  plan.need.overlaps = ask.overlaps;
  plan.is_immediate = ask.is_immediate;
  plan.has_terminal = ask.has_terminal;
  plan.kills_on_bad_exit = ask.kills_on_bad_exit;
  plan.outlives_nodes = !EnvironmentValue(around.environment, "DIVVY_STALE_GRACE").empty();
  plan.takes_first_failure = !ask.is_slurm;
  plan.is_quiet = ask.is_quiet;
  plan.quits_on_interrupt = ask.quits_on_interrupt;
  plan.wait = ask.wait;
  plan.time_limit = ask.time_limit;
  for (const std::string& word : ask.commands.front())
    plan.command += (plan.command.empty() ? "" : " ") + ShellQuote(word);
  plan.step_name = ask.name;
  if (!ask.is_quiet) {
    plan.busy = ask.is_slurm ? "srun: Job " + around.id +
                                   " step creation temporarily disabled, retrying (Requested nodes are busy)"
                             : "divvy: the step is waiting because other steps of job " + around.id + " use its GPUs";
  }
  if (ask.is_verbose && !place.is_part) {
    const auto launch = [&](const std::string& host, int tasks) {
      plan.launches.push_back(" on host " + host + ", " + std::to_string(tasks) + " tasks");
    };
    for (std::size_t i = 0; i < place.machines.size(); ++i) launch(place.machines[i], place.counts[i]);
    if (place.machines.empty()) launch(here.hostname, ask.deal.tasks);
  }
  plan.has_labels = ask.has_labels;
  plan.directory = ask.directory;
  std::vector<std::string> indices;
  for (const StepGpu& gpu : around.gpus) indices.push_back(gpu.physical);
  std::vector<PlacesHere> places = PlacesOf(ask, around, here);
  plan.gpus_of = [indices = std::move(indices), places](const std::vector<std::size_t>& granted) {
    std::vector<std::string> words;
    for (const PlacesHere& part : places) {
      for (const std::size_t gpu : part.Of(granted)) words.push_back(indices[gpu]);
    }
    return Join(words, ",");
  };
  plan.make = [ask = std::move(ask), around = std::move(around), cores = call.cores, &machine, here,
               place = std::move(place), places = std::move(places)](
                  StepNumber number, const std::vector<std::size_t>& granted) -> Result<StepTasks> {
    StepIdentity named = here;
    named.step = std::to_string(number);
    if (!ask.parts.empty()) return MakeParts(ask, around, places, granted, {{}, cores, machine}, named, place);
    const std::vector<StepGpu> gpus = GpusAt(around, granted);
    const TaskGround ground = GroundOf(gpus, cores, machine);
    StepTasks out;
    out.tasks = MakeTasks(ask, around, gpus, ground, named, place);
    out.ranks = place.ranks;
    out.map = MapLines(ask, gpus, ground, place.ranks, NodeIndexOf(named));
    return out;
  };
  return plan;
}

std::string FillStepPattern(const std::string& pattern, const JobAround& around, const StepIdentity& identity,
                            std::size_t rank) {
  const auto value = [&](std::string_view name) { return EnvironmentValue(around.environment, name); };
  const auto either = [](std::string first, std::string second) { return first.empty() ? second : first; };
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 >= pattern.size()) {
      text += pattern[i];
      continue;
    }
    std::size_t width = 0;
    std::size_t at = i + 1;
    while (at < pattern.size() && std::isdigit(static_cast<unsigned char>(pattern[at])) != 0 && width < 100) {
      width = width * 10 + static_cast<std::size_t>(pattern[at++] - '0');
    }
    width = std::min<std::size_t>(width, 10);
    const auto padded = [&](const std::string& number) {
      return number.size() < width ? std::string(width - number.size(), '0') + number : number;
    };
    const char letter = at < pattern.size() ? pattern[at] : '\0';
    switch (letter) {
      case 't':
        text += padded(std::to_string(rank));
        break;
      case 'j':
        text += padded(around.id);
        break;
      case 'A':
        text += padded(either(either(value("SLURM_ARRAY_JOB_ID"), value("DIVVY_ARRAY_ID")), around.id));
        break;
      case 'a':
        text += padded(either(either(value("SLURM_ARRAY_TASK_ID"), value("DIVVY_ARRAY_INDEX")), "4294967294"));
        break;
      case 'b':
        // The last digit of %a.
        text += either(either(value("SLURM_ARRAY_TASK_ID"), value("DIVVY_ARRAY_INDEX")), "4").back();
        break;
      case 's':
        text += padded(identity.step);
        break;
      case 'J':
        text += around.id + "." + identity.step;
        break;
      case 'n':
        text += padded(std::to_string(identity.node));
        break;
      case 'N':
        text += identity.hostname;
        break;
      case 'x':
        text += either(value("SLURM_JOB_NAME"), value("DIVVY_JOB_NAME"));
        break;
      case 'u':
        text += identity.user;
        break;
      case '%':
        text += '%';
        break;
      default:
        text += pattern.substr(i, at - i + 1);
        break;
    }
    i = at;
  }
  return text;
}

}  // namespace divvy::cli
