// Turns all options together into one Request. Follows Slurm's rules about which options multiply which (sbatch's man
// page): first computes the request of the whole job, then divides it over the nodes.
#include "dialect/options/slurm_request.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quantities.h"

namespace divvy::dialect::slurm {
namespace {

/// The GPUs that one option requests, for a node or for the whole job.
struct GpuCount {
  std::string option;  // "--gres=gpu:4", for messages.
  std::int64_t count = 0;
  std::string type;
  enum class Unit { kJob, kNode, kSocket, kTask } unit = Unit::kJob;
};

struct Tally {
  NodeRange nodes;
  bool says_nodes = false;
  std::int64_t tasks = 0;           // 0: not given.
  std::int64_t tasks_per_node = 0;  // 0: not given.
  std::vector<GpuCount> per_node;
  std::vector<GpuCount> gpus;      // For the whole job.
  std::string other_type;          // A second type in one option, which a single Request cannot express.
  std::int64_t gpus_per_task = 0;  // 0: not given.
  std::int64_t cpus_per_task = 0;  // 0: not given.
  // Totals of the whole job from Slurm's options. nullopt: no Slurm option sets the value, and the one from divvy's own
  // options stays.
  std::optional<std::int64_t> all_gpus;
  std::optional<std::int64_t> all_cpus;
  std::optional<std::int64_t> all_memory;  // Bytes.

  std::int64_t gpus_in_all(const Request& request) const { return all_gpus.value_or(request.gpus * nodes.least); }
};

std::string Written(const JobSpec& spec, std::string_view option) {
  return "--" + std::string(option) + "=" + Value(spec, option).value_or("");
}

Result<std::int64_t> Product(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > std::numeric_limits<std::int64_t>::max() / 4) {
    return InvalidArgument("the request for " + std::string(what) + " is too large; request less");
  }
  return product;
}

Status ReadNodes(const JobSpec& spec, Tally& tally) {
  if (const auto nodes = Value(spec, "nodes")) {
    DIVVY_TRY(tally.nodes, ParseNodes(*nodes));
    tally.says_nodes = true;
  }
  if (const auto constraint = Value(spec, "constraint")) {
    DIVVY_TRY(const ConstraintOption ask, ParseConstraint(*constraint));
    tally.nodes.least = std::max(tally.nodes.least, ask.nodes);
  }
  if (const auto hosts = Value(spec, "nodelist"); hosts && !tally.says_nodes) {
    DIVVY_TRY(const std::vector<std::string> names, ParseHosts("nodelist", *hosts));
    tally.nodes.least = std::max(tally.nodes.least, static_cast<std::int64_t>(names.size()));
  }
  tally.nodes.least = std::max<std::int64_t>(tally.nodes.least, 1);
  tally.nodes.most = std::max(tally.nodes.most, tally.nodes.least);
  return {};
}

/// Without --ntasks, each node gets --ntasks-per-node; with it, that is the maximum per node.
Status CountTasks(JobSpec& spec, Tally& tally) {
  tally.tasks = Number(spec, "ntasks").value_or(0);
  tally.tasks_per_node = Number(spec, "ntasks-per-node").value_or(0);
  if (tally.tasks > 0 && tally.tasks < tally.nodes.least && tally.says_nodes) {
    tally.nodes = {.least = tally.tasks, .most = tally.tasks};
    AddNote(spec, Written(spec, "nodes") + ": " + Plural(tally.tasks, "node") + " for " + Plural(tally.tasks, "task") +
                      ", as Slurm does");
  }
  if (tally.tasks == 0 || tally.tasks_per_node == 0) return {};
  const std::int64_t nodes = (tally.tasks + tally.tasks_per_node - 1) / tally.tasks_per_node;
  if (tally.says_nodes && nodes > tally.nodes.most) {
    return InvalidArgument(Written(spec, "ntasks") + " with " + Written(spec, "ntasks-per-node") +
                           " needs more than one node, and " + Written(spec, "nodes") +
                           " allows fewer: write --ntasks-per-node=" +
                           std::to_string((tally.tasks + tally.nodes.most - 1) / tally.nodes.most));
  }
  tally.nodes.least = std::max(tally.nodes.least, nodes);
  return {};
}

/// Collects the options that give a number of GPUs.
Status CollectGpus(JobSpec& spec, Tally& tally) {
  using Unit = GpuCount::Unit;
  const auto add = [&](std::vector<GpuCount>& where, const std::string& option, const GpuOption& ask, Unit unit) {
    where.push_back({option, ask.count, ask.type, unit});
    if (ask.other_type) tally.other_type = *ask.other_type;
  };
  if (const auto gres = Value(spec, "gres")) {
    DIVVY_TRY(const GresOption ask, ParseGres(*gres));
    for (const std::string& note : ask.notes) AddNote(spec, "--gres=" + note);
    if (ask.gpus) add(tally.per_node, Written(spec, "gres"), *ask.gpus, Unit::kNode);
  }
  for (const std::string_view option : {"gpus-per-node", "gpus"}) {
    const auto value = Value(spec, option);
    if (!value) continue;
    DIVVY_TRY(const GpuOption ask, ParseGpuCount(*value));
    // As in Slurm, the number of --gres counts if both options are given.
    if (option == "gpus-per-node" && !tally.per_node.empty()) {
      if (ask.count != tally.per_node.front().count)
        AddNote(spec, Written(spec, option) + ": " + tally.per_node.front().option + " counts instead, as in Slurm");
      continue;
    }
    if (!ask.note.empty()) AddNote(spec, Written(spec, option) + ": " + ask.note);
    if (option == "gpus") add(tally.gpus, Written(spec, option), ask, Unit::kJob);
    else add(tally.per_node, Written(spec, option), ask, Unit::kNode);
  }
  if (const auto value = Value(spec, "gpus-per-socket")) {
    const auto sockets = Number(spec, "sockets-per-node");
    if (!sockets) {
      return InvalidArgument(
          "--gpus-per-socket option requires --sockets-per-node specification; add it, or write --gpus=N for the whole "
          "job");
    }
    DIVVY_TRY(GpuOption ask, ParseGpuCount(*value));
    DIVVY_TRY(ask.count, Product(ask.count, *sockets, "GPUs"));
    add(tally.per_node, Written(spec, "gpus-per-socket") + " on " + Plural(*sockets, "socket"), ask, Unit::kSocket);
  }
  return {};
}

std::optional<std::string> PerTask(const JobSpec& spec) {
  for (const std::string_view option : {"gpus-per-task", "tres-per-task"}) {
    if (Value(spec, option)) return std::string(option);
  }
  return std::nullopt;
}

/// Without --nodes, derives the number of nodes from a count per node and a count for the whole job.
Status FindNodes(const JobSpec& spec, Tally& tally) {
  std::int64_t in_all = tally.gpus.empty() ? 0 : tally.gpus.front().count;
  if (const auto option = PerTask(spec); option && in_all == 0 && tally.tasks > 0) {
    DIVVY_TRY(const std::optional<GpuOption> each, GpusOfTask(*option, Value(spec, *option).value_or("")));
    if (each) {
      DIVVY_TRY(in_all, Product(each->count, tally.tasks, "GPUs"));
    }
  }
  if (!tally.per_node.empty() && !tally.says_nodes && tally.per_node.front().count > 0 &&
      in_all > tally.per_node.front().count && in_all % tally.per_node.front().count == 0) {
    tally.nodes.least = std::max(tally.nodes.least, in_all / tally.per_node.front().count);
  }
  const std::int64_t nodes = tally.nodes.least;
  std::vector<GpuCount> all;
  for (const GpuCount& one : tally.per_node) {
    DIVVY_TRY(const std::int64_t count, Product(one.count, nodes, "GPUs"));
    all.push_back({one.option + (nodes > 1 ? " on " + Plural(nodes, "node") : ""), count, one.type, one.unit});
  }
  tally.gpus.insert(tally.gpus.begin(), all.begin(), all.end());
  if (tally.tasks == 0 && tally.tasks_per_node > 0) {
    DIVVY_TRY(tally.tasks, Product(tally.tasks_per_node, nodes, "tasks and CPUs"));
  }
  return {};
}

/// --gpus-per-task (and the GPUs of --tres-per-task): multiplies the tasks, or divides the GPUs.
Status ApplyPerTask(JobSpec& spec, Tally& tally) {
  const auto option = PerTask(spec);
  if (!option) return {};
  const std::string written = Written(spec, *option);
  std::vector<std::string> notes;
  DIVVY_TRY(const std::optional<GpuOption> ask, GpusOfTask(*option, Value(spec, *option).value_or(""), &notes));
  for (const std::string& note : notes) AddNote(spec, "--" + *option + "=" + note);
  if (!ask) return {};
  if (ask->other_type) tally.other_type = *ask->other_type;
  if (tally.tasks == 0) {
    if (tally.gpus.empty() && !tally.says_nodes)
      return InvalidArgument(written + " needs the number of tasks; add --ntasks=N");
    // If only the number of nodes is given, each node has one task.
    if (tally.gpus.empty()) tally.tasks = tally.nodes.least;
  }
  if (tally.tasks == 0) {
    const std::int64_t total = tally.gpus.front().count;
    if (ask->count == 0 || total % ask->count != 0) {
      return InvalidArgument("Failed to validate job spec, --gpus not multiple of --gpus-per-task: " +
                             tally.gpus.front().option + " cannot be divided by " + written + "; write --ntasks=N");
    }
    tally.tasks = std::max<std::int64_t>(total / ask->count, 1);
  }
  tally.gpus_per_task = ask->count;
  DIVVY_TRY(const std::int64_t in_all, Product(ask->count, tally.tasks, "GPUs"));
  tally.gpus.push_back({written + " for " + Plural(tally.tasks, "task"), in_all, ask->type, GpuCount::Unit::kTask});
  return {};
}

/// --ntasks-per-gpu: derives the tasks from the GPUs, or the GPUs from the tasks.
Status ApplyTasksPerGpu(const JobSpec& spec, Tally& tally) {
  const auto per_gpu = Number(spec, "ntasks-per-gpu");
  if (!per_gpu) return {};
  if (tally.gpus.empty() && tally.tasks == 0) {
    return InvalidArgument("--ntasks-per-gpu needs a number of GPUs or tasks; add --gpus=N or --ntasks=N");
  }
  if (tally.gpus.empty()) {
    if (tally.tasks % *per_gpu != 0) {
      return InvalidArgument(std::to_string(tally.tasks) + " tasks cannot be divided by " +
                             Written(spec, "ntasks-per-gpu") + "; write --gpus=N");
    }
    tally.gpus.push_back({Written(spec, "ntasks-per-gpu"), tally.tasks / *per_gpu, "", GpuCount::Unit::kTask});
    return {};
  }
  DIVVY_TRY(const std::int64_t most, Product(tally.gpus.front().count, *per_gpu, "tasks and CPUs"));
  if (tally.tasks == 0) tally.tasks = most;
  if (tally.tasks > most) {
    return InvalidArgument(std::to_string(tally.tasks) + " tasks are more than " + tally.gpus.front().option + " and " +
                           Written(spec, "ntasks-per-gpu") + " allow: change one of them");
  }
  return {};
}

/// Slurm's sentence about two options that request different numbers of GPUs. `one` and `other` count the whole job.
std::string Contradiction(const GpuCount& one, const GpuCount& other, const Tally& tally) {
  using Unit = GpuCount::Unit;
  const std::int64_t nodes = tally.nodes.least;
  if (one.unit == Unit::kNode && other.unit == Unit::kSocket)
    return "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required number of "
           "sockets differ from --sockets-per-node.";
  if (other.unit == Unit::kTask && one.unit == Unit::kJob)
    return "Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested tasks differ from "
           "-n/--ntasks.";
  if (other.unit == Unit::kTask && tally.tasks_per_node > 0)
    return "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-task requested number of "
           "tasks per node differ from --ntasks-per-node.";
  // A count per node or per socket, and --gpus.
  if (other.unit != Unit::kJob || one.count == 0) return "Requested node configuration is not available";
  if (other.count * nodes < one.count)
    return "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket";
  if (other.count * nodes % one.count != 0)
    return "Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node";
  return "Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required nodes (" +
         std::to_string(other.count * nodes / one.count) + ") doesn't fall between min_nodes (" +
         std::to_string(nodes) + ") and max_nodes (" + std::to_string(tally.nodes.most) + ") boundaries.";
}

Status SettleGpus(JobSpec& spec, Tally& tally) {
  std::string type;
  for (const GpuCount& one : tally.gpus) {
    const GpuCount& first = tally.gpus.front();
    if (one.count != first.count) {
      return InvalidArgument(Contradiction(first, one, tally) + ": " + first.option + " makes " +
                             Plural(first.count, "GPU") + ", but " + one.option + " makes " +
                             std::to_string(one.count) + ": change one of them");
    }
    if (!one.type.empty() && !type.empty() && one.type != type) {
      return InvalidArgument("two types of GPU in one job, '" + type + "' and '" + one.type + "': keep one of them");
    }
    if (!one.type.empty()) type = one.type;
  }
  if (tally.says_nodes && !tally.gpus.empty()) {
    const GpuCount& all = tally.gpus.front();
    if (all.unit == GpuCount::Unit::kJob && all.count > 0 && all.count < tally.nodes.least)
      return InvalidArgument("Failed to validate job spec, --gpus < -N: " + all.option +
                             " is fewer than one for each of " + Plural(tally.nodes.least, "node") +
                             "; write --nodes=" + std::to_string(all.count));
  }
  if (!tally.gpus.empty()) {
    if (tally.gpus.front().count > std::numeric_limits<int>::max()) {
      return InvalidArgument(tally.gpus.front().option + " makes " + std::to_string(tally.gpus.front().count) +
                             " GPUs");
    }
    tally.all_gpus = tally.gpus.front().count;
    spec.request.max_gpus = 0;
  }
  std::string condition;
  if (const auto constraint = Value(spec, "constraint")) {
    DIVVY_TRY(const ConstraintOption ask, ParseConstraint(*constraint));
    condition = ask.gpu_type;
    if (ask.gpu_memory_gigabytes > 0) spec.request.gpu_memory = Bytes(ask.gpu_memory_gigabytes * 1'000'000'000);
    for (const std::string& feature : ask.unknown) {
      AddNote(spec, "--constraint=" + feature +
                        ": not a GPU model, so it is a node feature (divvy node label); on a single server it is "
                        "assumed to be present");
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

Status SettleCpus(JobSpec& spec, Tally& tally) {
  const std::int64_t tasks = tally.tasks;
  auto per_task = Number(spec, "cpus-per-task");
  if (const auto tres = Value(spec, "tres-per-task"); tres && !per_task) {
    DIVVY_TRY(const TresOption ask, ParseTres(*tres));
    per_task = ask.cpus;
  }
  std::int64_t cpus = 0;
  if (per_task) {
    tally.cpus_per_task = *per_task;
    DIVVY_TRY(cpus, Product(tasks, *per_task, "tasks and CPUs"));
  }
  if (const auto per_gpu = Number(spec, "cpus-per-gpu")) {
    const std::int64_t gpus = tally.gpus_in_all(spec.request);
    if (gpus == 0) return InvalidArgument("--cpus-per-gpu needs GPUs; add --gpus=N, or write --cpus-per-task");
    DIVVY_TRY(cpus, Product(*per_gpu, gpus, "tasks and CPUs"));
  }
  DIVVY_TRY(const std::int64_t least,
            Product(Number(spec, "mincpus").value_or(0), tally.nodes.least, "tasks and CPUs"));
  cpus = std::max(cpus, least);
  if (cpus > std::numeric_limits<int>::max())
    return InvalidArgument(std::to_string(cpus) + " CPUs are too many; request less");
  if (cpus > 0) tally.all_cpus = cpus;
  return {};
}

Status SettleMemory(const JobSpec& spec, Tally& tally) {
  const auto size = [&](std::string_view option) -> Result<std::int64_t> {
    DIVVY_TRY(const Bytes bytes, ParseSize(Value(spec, option).value_or(""), 1 << 20));
    return bytes.count();
  };
  std::int64_t memory = 0;
  if (Value(spec, "mem")) {
    DIVVY_TRY(const std::int64_t each, size("mem"));
    DIVVY_TRY(memory, Product(each, tally.nodes.least, "memory"));
    tally.all_memory = memory;  // In Slurm, 0 means all of the node's memory: reserve no amount.
  } else if (Value(spec, "mem-per-cpu")) {
    DIVVY_TRY(const std::int64_t each, size("mem-per-cpu"));
    DIVVY_TRY(
        memory,
        Product(each, std::max(tally.all_cpus.value_or(spec.request.cpus * tally.nodes.least), tally.tasks), "memory"));
    tally.all_memory = memory;
  } else if (Value(spec, "mem-per-gpu")) {
    const std::int64_t gpus = tally.gpus_in_all(spec.request);
    if (gpus == 0) return InvalidArgument("--mem-per-gpu needs GPUs; add --gpus=N, or write --mem");
    DIVVY_TRY(const std::int64_t each, size("mem-per-gpu"));
    DIVVY_TRY(memory, Product(each, gpus, "memory"));
    tally.all_memory = memory;
  }
  return {};
}

/// "8 GPUs on 2 nodes": describes the request, and what to write for the same amount on this server.
std::string BeyondOneNode(const JobSpec& spec, const Tally& tally) {
  const std::int64_t nodes = tally.nodes.least;
  const std::int64_t gpus = tally.gpus_in_all(spec.request);
  std::string text = "the job requests " + Plural(nodes, "node");
  if (gpus > 0 && gpus % nodes == 0)
    text += " with " + Plural(gpus / nodes, "GPU") + " each, " + std::to_string(gpus) + " in total";
  if (gpus > 0 && gpus % nodes != 0) text += " with " + Plural(gpus, "GPU") + " in total";
  text += ", but this server is a single node; for the same amount here write --nodes=1";
  if (gpus > 0) text += " --gpus=" + std::to_string(gpus);
  if (tally.tasks > nodes) text += " --ntasks-per-node=" + std::to_string(tally.tasks);
  return text;
}

/// Stores the errors for requests that are valid in Slurm but impossible in divvy, or on a single-node server.
void KeepBeyond(JobSpec& spec, const Tally& tally) {
  Forget(spec, "beyond");
  Forget(spec, "beyond-one");
  Forget(spec, "node-count");
  if (tally.nodes.least > 1) {
    Keep(spec, "node-count", std::to_string(tally.nodes.least));
    Keep(spec, "beyond-one", BeyondOneNode(spec, tally));
  }
  if (!tally.other_type.empty()) {
    const std::string& type = tally.gpus.front().type;
    Keep(spec, "beyond",
         "two types of GPU in one option ('" + type + "' and '" + tally.other_type +
             "'); request one type, no type (--gpus=" + std::to_string(tally.gpus_in_all(spec.request)) +
             "), or each type in a separate component (--gpus=" + (type.empty() ? "" : type + ":") +
             "N : --gpus=" + tally.other_type + ":M)");
  }
}

/// True if the tasks may be on any number of nodes: no option gives their number, and the resources divide evenly by
/// task.
bool MaySpread(const JobSpec& spec, const Tally& tally) {
  const bool says_nodes = tally.says_nodes || tally.nodes.least > 1 || !tally.per_node.empty() ||
                          tally.tasks_per_node > 0 || Value(spec, "mincpus") || Value(spec, "exclusive");
  if (says_nodes || tally.tasks <= 1) return false;
  const Request& request = spec.request;
  return (request.gpus > 0 || request.cpus > 0) && request.gpus % tally.tasks == 0 && request.cpus % tally.tasks == 0;
}

/// True if some nodes of the job may have one GPU less than the others. The steps, CPUs and memory of such a job would
/// have to follow its GPUs if an option relates them to GPUs or if its nodes have different numbers of tasks.
bool MayBeUneven(const JobSpec& spec, const Tally& tally) {
  // A constraint that counts nodes divides them by itself, so all of them get the same number.
  const bool counts_nodes = Value(spec, "constraint").value_or("").find('*') != std::string::npos;
  const bool follows_gpus = Value(spec, "cpus-per-gpu") || Value(spec, "mem-per-gpu") || Value(spec, "ntasks-per-gpu");
  return !counts_nodes && !follows_gpus && tally.gpus_per_task <= 1 && tally.tasks % tally.nodes.least == 0 &&
         spec.request.portion == GpuPortion();
}

/// Converts the request of the whole job to a request per node: rounded up, and enough for the node with the most
/// tasks.
void DealOut(JobSpec& spec, const Tally& tally) {
  Request& request = spec.request;
  const std::int64_t nodes = tally.nodes.least;
  const auto share = [nodes](std::int64_t all) { return (all + nodes - 1) / nodes; };
  request.nodes = static_cast<int>(nodes);
  request.short_nodes = 0;
  if (tally.all_gpus) {
    const std::int64_t each = std::max(share(*tally.all_gpus), share(tally.tasks) * tally.gpus_per_task);
    const std::int64_t missing = each * nodes - *tally.all_gpus;
    if (missing < nodes && each > 1 && MayBeUneven(spec, tally)) {
      request.short_nodes = static_cast<int>(missing);
    } else if (missing > 0) {
      AddNote(spec, Plural(*tally.all_gpus, "GPU") + " on " + Plural(nodes, "node") +
                        " cannot be divided evenly: " + std::to_string(each) + " on each");
    }
    request.gpus = static_cast<int>(each);
  }
  if (tally.all_cpus)
    request.cpus = static_cast<int>(std::max(share(*tally.all_cpus), share(tally.tasks) * tally.cpus_per_task));
  if (tally.all_memory) request.memory = Bytes(share(*tally.all_memory));
  request.spreads_tasks = MaySpread(spec, tally);
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

void KeepOrigin(JobSpec& spec, const ParseContext& around) {
  if (!around.directory.empty()) Keep(spec, "submit-dir", around.directory);
  if (!around.hostname.empty()) Keep(spec, "submit-host", around.hostname.substr(0, around.hostname.find('.')));
}

void Forget(JobSpec& spec, std::string_view option) { spec.labels.erase(LabelOf(option)); }

Status Settle(JobSpec& spec) {
  Tally tally;
  DIVVY_CHECK(ReadNodes(spec, tally));
  DIVVY_CHECK(CountTasks(spec, tally));
  DIVVY_CHECK(CollectGpus(spec, tally));
  DIVVY_CHECK(FindNodes(spec, tally));
  DIVVY_CHECK(ApplyPerTask(spec, tally));
  DIVVY_CHECK(ApplyTasksPerGpu(spec, tally));
  DIVVY_CHECK(SettleGpus(spec, tally));
  tally.tasks = std::max(tally.tasks, tally.nodes.least);  // At least one on each node.
  if (tally.tasks > 1'000'000)
    return InvalidArgument(std::to_string(tally.tasks) + " tasks are too many; request at most 1000000");
  spec.request.tasks = static_cast<int>(tally.tasks);
  DIVVY_CHECK(SettleCpus(spec, tally));
  DIVVY_CHECK(SettleMemory(spec, tally));
  KeepBeyond(spec, tally);
  DealOut(spec, tally);
  return SettlePlaces(spec);
}

}  // namespace divvy::dialect::slurm
