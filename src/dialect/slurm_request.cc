// All options together become one Request. Slurm's rules on which options multiply which are kept (sbatch's man page);
// what Slurm would find out node by node is simple here, because there is one node.
#include "dialect/slurm_request.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "dialect/option_values.h"
#include "dialect/quantities.h"

namespace divvy::dialect::slurm {
namespace {

/// What one option says about the job's GPUs altogether.
struct TotalGpus {
  std::string option;  // "--gres=gpu:4", for messages.
  std::int64_t count = 0;
  std::string type;
};

struct Tally {
  std::int64_t tasks = 0;  // 0: not said.
  std::vector<TotalGpus> gpus;
  std::vector<std::string> types;
};

std::string Written(const JobSpec& spec, std::string_view option) {
  return "--" + std::string(option) + "=" + Value(spec, option).value_or("");
}

Status CountTasks(const JobSpec& spec, Tally& tally) {
  const auto tasks = Number(spec, "ntasks");
  const auto per_node = Number(spec, "ntasks-per-node");
  if (tasks && per_node && *tasks > *per_node) {
    return InvalidArgument(
        Written(spec, "ntasks") + " with " + Written(spec, "ntasks-per-node") +
        " needs more than one node; this server is one: write --ntasks-per-node=" + std::to_string(*tasks));
  }
  tally.tasks = tasks.value_or(per_node.value_or(0));
  return {};
}

/// The options that give a total by themselves.
Status CollectTotals(JobSpec& spec, Tally& tally) {
  if (const auto gres = Value(spec, "gres")) {
    DIVVY_TRY(const GresAsk ask, ParseGres(*gres));
    for (const std::string& note : ask.notes) AddNote(spec, "--gres=" + note);
    if (ask.gpus) tally.gpus.push_back({Written(spec, "gres"), ask.gpus->count, ask.gpus->type});
  }
  for (const std::string_view option : {"gpus-per-node", "gpus"}) {
    const auto value = Value(spec, option);
    if (!value) continue;
    DIVVY_TRY(const GpuAsk ask, ParseGpuCount(*value));
    if (!ask.note.empty()) AddNote(spec, Written(spec, option) + ": " + ask.note);
    tally.gpus.push_back({Written(spec, option), ask.count, ask.type});
  }
  if (const auto value = Value(spec, "gpus-per-socket")) {
    const auto sockets = Number(spec, "sockets-per-node");
    if (!sockets) {
      return InvalidArgument("--gpus-per-socket needs --sockets-per-node; or write --gpus=N for the whole job");
    }
    DIVVY_TRY(const GpuAsk ask, ParseGpuCount(*value));
    tally.gpus.push_back(
        {Written(spec, "gpus-per-socket") + " on " + Plural(*sockets, "socket"), ask.count * *sockets, ask.type});
  }
  return {};
}

/// --gpus-per-task (and --tres-per-task's GPUs): multiplies the tasks, or divides the GPUs.
Status ApplyPerTask(JobSpec& spec, Tally& tally) {
  std::optional<GpuAsk> ask;
  std::string written;
  if (const auto value = Value(spec, "gpus-per-task")) {
    DIVVY_TRY(ask, ParseGpuCount(*value));
    written = Written(spec, "gpus-per-task");
    if (!ask->note.empty()) AddNote(spec, written + ": " + ask->note);
  } else if (const auto tres = Value(spec, "tres-per-task")) {
    DIVVY_TRY(const TresAsk parsed, ParseTres(*tres));
    for (const std::string& note : parsed.notes) AddNote(spec, "--tres-per-task=" + note);
    ask = parsed.gpus;
    written = Written(spec, "tres-per-task");
  }
  if (!ask) return {};
  if (tally.tasks == 0) {
    if (tally.gpus.empty()) {
      return InvalidArgument(written + " needs to know how many tasks: add --ntasks=N");
    }
    const std::int64_t total = tally.gpus.front().count;
    if (ask->count == 0 || total % ask->count != 0) {
      return InvalidArgument(tally.gpus.front().option + " cannot be dealt out by " + written + "; write --ntasks=N");
    }
    tally.tasks = std::max<std::int64_t>(total / ask->count, 1);
  }
  tally.gpus.push_back({written + " for " + Plural(tally.tasks, "task"), ask->count * tally.tasks, ask->type});
  return {};
}

/// --ntasks-per-gpu: tasks follow GPUs, or GPUs follow tasks.
Status ApplyTasksPerGpu(const JobSpec& spec, Tally& tally) {
  const auto per_gpu = Number(spec, "ntasks-per-gpu");
  if (!per_gpu) return {};
  if (tally.gpus.empty() && tally.tasks == 0) {
    return InvalidArgument("--ntasks-per-gpu needs a number of GPUs or of tasks: add --gpus=N or --ntasks=N");
  }
  if (tally.gpus.empty()) {
    if (tally.tasks % *per_gpu != 0) {
      return InvalidArgument(std::to_string(tally.tasks) + " tasks cannot be dealt out by " +
                             Written(spec, "ntasks-per-gpu") + "; write --gpus=N");
    }
    tally.gpus.push_back({Written(spec, "ntasks-per-gpu"), tally.tasks / *per_gpu, ""});
  } else if (tally.tasks == 0) {
    tally.tasks = tally.gpus.front().count * *per_gpu;
  } else if (tally.tasks > tally.gpus.front().count * *per_gpu) {
    return InvalidArgument(std::to_string(tally.tasks) + " tasks are more than " + tally.gpus.front().option + " and " +
                           Written(spec, "ntasks-per-gpu") + " allow: change one of them");
  }
  return {};
}

Status SettleGpus(JobSpec& spec, const Tally& tally) {
  std::string type;
  for (const TotalGpus& one : tally.gpus) {
    const TotalGpus& first = tally.gpus.front();
    if (one.count != first.count) {
      return InvalidArgument(first.option + " makes " + Plural(first.count, "GPU") + ", but " + one.option + " makes " +
                             std::to_string(one.count) + ": change one of them");
    }
    if (!one.type.empty() && !type.empty() && one.type != type) {
      return InvalidArgument("two types of GPU in one job, '" + type + "' and '" + one.type + "': keep one of them");
    }
    if (!one.type.empty()) type = one.type;
  }
  if (!tally.gpus.empty()) {
    if (tally.gpus.front().count > std::numeric_limits<int>::max()) {
      return InvalidArgument(tally.gpus.front().option + " makes " + std::to_string(tally.gpus.front().count) +
                             " GPUs");
    }
    spec.request.gpus = static_cast<int>(tally.gpus.front().count);
    spec.request.gpus_most = 0;
  }
  std::string condition;
  if (const auto constraint = Value(spec, "constraint")) {
    DIVVY_TRY(const ConstraintAsk ask, ParseConstraint(*constraint));
    condition = ask.gpu_type;
    if (ask.gpu_memory_gigabytes > 0) spec.request.gpu_memory = Bytes(ask.gpu_memory_gigabytes * 1'000'000'000);
    for (const std::string& feature : ask.unknown) {
      AddNote(spec, "--constraint=" + feature + ": not a GPU's model, so it is taken to hold on this server");
    }
  }
  if (!type.empty()) {
    const std::string terms = GpuTypeTerms(type);
    if (condition.empty()) {
      condition = terms;
    } else {
      std::vector<std::string> both;
      for (const std::string_view option : Split(condition, '|')) {
        both.push_back(option == terms ? terms : terms + "&" + std::string(option));
      }
      condition = Join(both, "|");
    }
  }
  if (!condition.empty() || !tally.gpus.empty()) spec.request.gpu_type = condition;
  return {};
}

Result<std::int64_t> Product(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > std::numeric_limits<std::int64_t>::max() / 4) {
    return InvalidArgument("so much " + std::string(what) + " cannot be counted; ask for less");
  }
  return product;
}

Status SettleCpus(JobSpec& spec, std::int64_t tasks) {
  auto per_task = Number(spec, "cpus-per-task");
  if (const auto tres = Value(spec, "tres-per-task"); tres && !per_task) {
    DIVVY_TRY(const TresAsk ask, ParseTres(*tres));
    per_task = ask.cpus;
  }
  std::int64_t cpus = 0;
  if (per_task) cpus = tasks * *per_task;
  if (const auto per_gpu = Number(spec, "cpus-per-gpu")) {
    if (spec.request.gpus == 0)
      return InvalidArgument("--cpus-per-gpu needs GPUs: add --gpus=N, or write --cpus-per-task");
    cpus = *per_gpu * spec.request.gpus;
  }
  cpus = std::max(cpus, Number(spec, "mincpus").value_or(0));
  if (cpus > std::numeric_limits<int>::max()) return InvalidArgument(std::to_string(cpus) + " CPUs; ask for less");
  if (cpus > 0) spec.request.cpus = static_cast<int>(cpus);
  return {};
}

Status SettleMemory(JobSpec& spec, std::int64_t tasks) {
  const auto size = [&](std::string_view option) -> Result<std::int64_t> {
    DIVVY_TRY(const Bytes bytes, ParseSize(Value(spec, option).value_or(""), 1 << 20));
    return bytes.count();
  };
  std::int64_t memory = 0;
  if (Value(spec, "mem")) {
    DIVVY_TRY(memory, size("mem"));
    spec.request.memory = Bytes(memory);  // 0 is all of the node's in Slurm: no amount is set aside.
  } else if (Value(spec, "mem-per-cpu")) {
    DIVVY_TRY(const std::int64_t each, size("mem-per-cpu"));
    DIVVY_TRY(memory, Product(each, std::max<std::int64_t>(spec.request.cpus, tasks), "memory"));
    spec.request.memory = Bytes(memory);
  } else if (Value(spec, "mem-per-gpu")) {
    if (spec.request.gpus == 0) return InvalidArgument("--mem-per-gpu needs GPUs: add --gpus=N, or write --mem");
    DIVVY_TRY(const std::int64_t each, size("mem-per-gpu"));
    DIVVY_TRY(memory, Product(each, spec.request.gpus, "memory"));
    spec.request.memory = Bytes(memory);
  }
  return {};
}

}  // namespace

std::string LabelOf(std::string_view option) { return "slurm." + std::string(option); }

std::optional<std::string> Value(const JobSpec& spec, std::string_view option) {
  const auto found = spec.labels.find(LabelOf(option));
  if (found == spec.labels.end()) return std::nullopt;
  return found->second;
}

std::optional<std::int64_t> Number(const JobSpec& spec, std::string_view option) {
  const auto value = Value(spec, option);
  return value ? ParseInteger(*value) : std::nullopt;
}

void Keep(JobSpec& spec, std::string_view option, std::string_view value) {
  spec.labels[LabelOf(option)] = std::string(value);
}

void Forget(JobSpec& spec, std::string_view option) { spec.labels.erase(LabelOf(option)); }

Status Settle(JobSpec& spec) {
  Tally tally;
  DIVVY_CHECK(CountTasks(spec, tally));
  DIVVY_CHECK(CollectTotals(spec, tally));
  DIVVY_CHECK(ApplyPerTask(spec, tally));
  DIVVY_CHECK(ApplyTasksPerGpu(spec, tally));
  DIVVY_CHECK(SettleGpus(spec, tally));
  const std::int64_t tasks = std::max<std::int64_t>(tally.tasks, 1);
  if (tasks > 1'000'000) return InvalidArgument(std::to_string(tasks) + " tasks; ask for at most 1000000");
  spec.request.tasks = static_cast<int>(tasks);
  DIVVY_CHECK(SettleCpus(spec, tasks));
  return SettleMemory(spec, tasks);
}

}  // namespace divvy::dialect::slurm
