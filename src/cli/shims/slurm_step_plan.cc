#include "cli/shims/slurm_step_plan.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/index_ranges.h"
#include "base/text.h"
#include "dialect/slurm.h"
#include "dialect/slurm_request.h"

namespace divvy::cli::slurm {
namespace {

namespace options = divvy::dialect::slurm;

std::vector<std::string> Words(const std::string& list) {
  std::vector<std::string> words;
  for (const std::string_view item : Split(list, ',')) {
    if (!item.empty()) words.emplace_back(item);
  }
  return words;
}

/// A task's own GPUs, as places in the step's list.
std::vector<std::size_t> OwnPlaces(const StepAsk& ask, std::size_t rank, std::size_t count) {
  std::vector<std::size_t> places;
  if (count == 0) return places;
  if (ask.tasks_per_gpu > 0) return {rank / static_cast<std::size_t>(ask.tasks_per_gpu) % count};
  const auto each = static_cast<std::size_t>(std::max(ask.gpus_per_task, 1));
  for (std::size_t i = 0; i < std::min(each, count); ++i) places.push_back((rank * each + i) % count);
  return places;
}

/// "map_gpu:0,2" and "mask_gpu:3,c": the places that --gpu-bind names for a rank.
std::vector<std::size_t> BoundPlaces(const std::string& bind, std::size_t rank, std::size_t count) {
  const auto colon = bind.find(':');
  const std::vector<std::string> items = Words(bind.substr(std::min(colon + 1, bind.size())));
  if (colon == std::string::npos || items.empty()) return {};
  std::string_view item = items[rank % items.size()];
  const bool is_mask = bind.starts_with("mask");
  if (item.starts_with("0x")) item.remove_prefix(2);
  std::uint64_t number = 0;
  if (std::from_chars(item.data(), item.data() + item.size(), number, is_mask ? 16 : 10).ec != std::errc()) return {};
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < std::min<std::size_t>(count, 64); ++place) {
    if (is_mask ? (number >> place & 1) != 0 : number == place) places.push_back(place);
  }
  return places;
}

struct Sight {
  std::vector<std::size_t> own;
  bool sees_others = true;
};

Sight SightOf(const StepAsk& ask, std::size_t rank, std::size_t count) {
  std::string bind = ask.bind;
  for (const std::string_view word : {"verbose,", "v,", "quiet,"}) {
    if (bind.starts_with(word)) bind.erase(0, word.size());
  }
  if (bind.starts_with("gres/gpu:")) bind.erase(0, 9);
  if (bind.starts_with("none")) return {};
  if (bind.starts_with("map") || bind.starts_with("mask")) {
    auto places = BoundPlaces(bind, rank, count);
    if (!places.empty()) return {std::move(places), false};
    return {};
  }
  const bool is_alone = bind.starts_with("single") || bind.starts_with("per_task");
  if (ask.gpus_per_task > 0 || ask.tasks_per_gpu > 0 || is_alone) return {OwnPlaces(ask, rank, count), !is_alone};
  return {};
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
  /// --export: keeps what it names and what makes the job.
  void Restrict(const std::string& list) {
    bool keeps_all = list.empty();
    std::set<std::string, std::less<>> kept;
    std::vector<std::pair<std::string, std::string>> set;
    for (const std::string& item : Words(list)) {
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
    for (const auto& [name, value] : values_) entries.push_back(name + "=" + value);
    return entries;
  }

 private:
  std::map<std::string, std::string> values_;
};

std::string JoinGpus(const std::vector<StepGpu>& gpus, const std::vector<std::size_t>& places,
                     std::string StepGpu::*field) {
  std::vector<std::string> words;
  for (const std::size_t place : places) words.push_back(gpus[place].*field);
  return Join(words, ",");
}

void AddGpuWords(const StepAsk& ask, const std::vector<StepGpu>& gpus, std::size_t rank, Environment& out) {
  const Sight sight = SightOf(ask, rank, gpus.size());
  std::vector<std::size_t> all;
  for (std::size_t place = 0; place < gpus.size(); ++place) all.push_back(place);
  std::vector<std::size_t> seen = sight.own;
  if (sight.sees_others) {
    std::ranges::copy_if(all, std::back_inserter(seen),
                         [&](std::size_t place) { return std::ranges::find(sight.own, place) == sight.own.end(); });
  }
  out.Set("CUDA_VISIBLE_DEVICES", JoinGpus(gpus, seen, &StepGpu::visible));
  out.Set("SLURM_STEP_GPUS", JoinGpus(gpus, sight.own.empty() ? all : sight.own, &StepGpu::physical));
  out.Set("SLURM_GPUS_ON_NODE", std::to_string(gpus.size()));
}

}  // namespace

std::string EnvironmentValue(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return "";
}

bool IsInsideJob(const std::vector<std::string>& environment) {
  if (!EnvironmentValue(environment, "DIVVY_JOB_ID").empty()) return true;
  return !EnvironmentValue(environment, "SLURM_JOB_ID").empty() &&
         EnvironmentValue(environment, "SLURM_CLUSTER_NAME") == "divvy";
}

JobAround ReadJobAround(const std::vector<std::string>& environment) {
  JobAround around;
  around.environment = environment;
  around.id = EnvironmentValue(environment, "SLURM_JOB_ID");
  if (around.id.empty()) around.id = EnvironmentValue(environment, "DIVVY_JOB_ID");
  const std::vector<std::string> visible = Words(EnvironmentValue(environment, "CUDA_VISIBLE_DEVICES"));
  const std::vector<std::string> physical = Words(EnvironmentValue(environment, "SLURM_JOB_GPUS"));
  // A script may have narrowed CUDA_VISIBLE_DEVICES by hand; then only the job's own list tells what there is.
  const bool is_narrowed = !physical.empty() && visible.size() != physical.size();
  const std::vector<std::string>& words = is_narrowed ? physical : visible;
  for (std::size_t i = 0; i < words.size(); ++i)
    around.gpus.push_back({words[i], physical.empty() ? words[i] : physical[i]});
  return around;
}

Result<StepAsk> ReadStepAsk(JobSpec& spec, const JobAround& around) {
  const auto given = [&](std::string_view option) { return options::Value(spec, option).has_value(); };
  const auto inherit = [&](std::string_view option, std::string_view variable) {
    const std::string value = EnvironmentValue(around.environment, variable);
    if (!value.empty()) options::Keep(spec, option, value);
  };
  const bool says_gpus = given("gres") || given("gpus") || given("gpus-per-node") || given("gpus-per-task") ||
                         given("tres-per-task") || given("ntasks-per-gpu") || given("gpus-per-socket");
  if (!given("ntasks") && !given("ntasks-per-node") && !given("ntasks-per-gpu")) {
    inherit("ntasks", "SLURM_NTASKS");
    if (!given("ntasks")) inherit("ntasks", "SLURM_NPROCS");
  }
  if (!says_gpus) {
    inherit("gpus-per-task", "SLURM_GPUS_PER_TASK");
    if (!given("gpus-per-task")) inherit("tres-per-task", "SLURM_TRES_PER_TASK");
  }
  if (!given("gpu-bind")) inherit("gpu-bind", "SLURM_GPU_BIND");
  DIVVY_CHECK(dialect::FinishSlurm(spec));
  if (const Status place = dialect::CheckSlurmPlace(spec); !place) {
    return InvalidArgument("Unable to create step for job " + around.id +
                           ": More nodes requested than the job has: " + place.error().message);
  }

  StepAsk ask;
  ask.tasks = std::max(spec.request.tasks, 1);
  if (says_gpus) ask.own_gpus = spec.request.gpus;
  if (const auto per_task = options::Value(spec, "gpus-per-task")) {
    DIVVY_TRY(const options::GpuAsk gpus, options::ParseGpuCount(*per_task));
    ask.gpus_per_task = static_cast<int>(gpus.count);
  } else if (const auto tres = options::Value(spec, "tres-per-task")) {
    DIVVY_TRY(const options::TresAsk parsed, options::ParseTres(*tres));
    if (parsed.gpus) ask.gpus_per_task = static_cast<int>(parsed.gpus->count);
  }
  ask.tasks_per_gpu = static_cast<int>(options::Number(spec, "ntasks-per-gpu").value_or(0));
  ask.bind = options::Value(spec, "gpu-bind").value_or(options::Value(spec, "tres-bind").value_or(""));
  ask.export_list = options::Value(spec, "export").value_or("");
  if (ask.own_gpus && *ask.own_gpus > static_cast<int>(around.gpus.size())) {
    return InvalidArgument("Unable to create step for job " + around.id + ": it asks for " +
                           Plural(*ask.own_gpus, "GPU") + ", the job has " + std::to_string(around.gpus.size()));
  }
  return ask;
}

std::vector<StepTask> MakeTasks(const StepAsk& ask, const JobAround& around, const std::vector<StepGpu>& gpus,
                                const StepIdentity& identity, const std::vector<std::string>& command) {
  Environment base(around.environment);
  base.Restrict(ask.export_list);
  const std::string count = std::to_string(ask.tasks);
  std::vector<std::string> ranks;
  for (int rank = 0; rank < ask.tasks; ++rank) ranks.push_back(std::to_string(rank));
  for (const char* name :
       {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    base.Set(name, count);
  }
  base.Set("SLURM_STEP_ID", identity.step);
  base.Set("SLURM_STEPID", identity.step);
  base.Set("SLURM_STEP_NUM_NODES", "1");
  base.Set("SLURM_STEP_NODELIST", identity.hostname);
  base.Set("SLURM_NODEID", "0");
  base.Set("SLURM_GTIDS", Join(ranks, ","));
  base.Set("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1");
  base.Set("SLURM_SRUN_COMM_HOST", "127.0.0.1");
  base.Set("SLURM_DISTRIBUTION", "block");
  std::vector<StepTask> tasks;
  for (int rank = 0; rank < ask.tasks; ++rank) {
    Environment own = base;
    own.Set("SLURM_PROCID", ranks[static_cast<std::size_t>(rank)]);
    own.Set("SLURM_LOCALID", ranks[static_cast<std::size_t>(rank)]);
    // A job without GPUs keeps what its own start said about them.
    if (!around.gpus.empty()) AddGpuWords(ask, gpus, static_cast<std::size_t>(rank), own);
    tasks.push_back({command, own.Entries()});
  }
  return tasks;
}

Result<std::vector<std::vector<std::string>>> ReadMultiProg(std::string_view text, int tasks) {
  std::vector<std::vector<std::string>> commands(static_cast<std::size_t>(tasks));
  int number = 0;
  for (const std::string_view raw : Split(text, '\n')) {
    ++number;
    const std::string where = "line " + std::to_string(number) + ": ";
    const std::string_view line = Trim(raw);
    if (line.empty() || line.starts_with('#')) continue;
    const auto words = ShellSplit(line);
    if (!words || words->size() < 2) return InvalidArgument(where + "write RANKS COMMAND..., such as 0-3 ./solve %t");
    IndexRanges ranks;
    if (words->front() == "*") {
      for (std::size_t rank = 0; rank < commands.size(); ++rank) {
        if (commands[rank].empty()) ranks.Insert(static_cast<std::uint32_t>(rank));
      }
    } else {
      auto parsed = IndexRanges::Parse(words->front(), "ranks");
      if (!parsed) return InvalidArgument(where + parsed.error().message);
      ranks = *std::move(parsed);
    }
    std::size_t place = 0;
    for (const auto& range : ranks.ranges()) {
      for (std::uint32_t rank = range.first; rank <= range.last && rank < commands.size(); ++rank, ++place) {
        std::vector<std::string> command(words->begin() + 1, words->end());
        for (std::string& word : command) {
          for (const auto& [mark, value] : {std::pair("%t", std::size_t{rank}), std::pair("%o", place)}) {
            for (auto at = word.find(mark); at != std::string::npos; at = word.find(mark, at))
              word.replace(at, 2, std::to_string(value));
          }
        }
        commands[rank] = std::move(command);
      }
    }
  }
  for (std::size_t rank = 0; rank < commands.size(); ++rank) {
    if (commands[rank].empty())
      return InvalidArgument("no line is for task " + std::to_string(rank) + "; add one, or *");
  }
  return commands;
}

}  // namespace divvy::cli::slurm
