#include "cli/client/places.h"

#include <cmath>

#include "base/text.h"
#include "cli/client/job_text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_hostlist.h"

namespace divvy::cli {
namespace {

std::string Named(const std::string& node, const std::string& own) { return node.empty() ? own : node; }

/// An array as a whole has no node; each element has its own.
template <typename View>
bool IsArray(const View& job) {
  return !job.array_index && (job.count != 1 || !job.array_indices.empty());
}

std::string Ranks(std::int64_t first, std::int64_t count) {
  if (count < 2) return "rank " + std::to_string(first);
  return "ranks " + std::to_string(first) + "-" + std::to_string(first + count - 1);
}

std::string Gpus(const std::vector<std::int64_t>& gpus) {
  if (gpus.empty()) return "no GPU";
  return (gpus.size() > 1 ? "GPUs " : "GPU ") + GpuList(gpus);
}

/// For a heterogeneous job: one line per component and node, because ranks are counted by component.
std::vector<std::string> PartLines(const wire::JobDetail& job, const std::string& own) {
  std::vector<std::string> lines;
  std::int64_t rank = 0;
  for (std::size_t component = 0; component <= job.request.others.size(); ++component) {
    for (const wire::AllocationView& allocation : job.allocations) {
      for (const wire::AllocationPartView& part : allocation.parts) {
        if (part.component != static_cast<std::int64_t>(component)) continue;
        lines.push_back("component " + std::to_string(component) + " on " + Named(allocation.node, own) + ": " +
                        Ranks(rank, part.tasks) + ", " + Gpus(part.gpus));
        rank += part.tasks;
      }
    }
  }
  return lines;
}

}  // namespace

std::string NameAmongSeveral(Api& api) {
  const auto status = api.Status();
  return status ? status->node : "";
}

std::string OwnName(Api& api) {
  const std::string name = NameAmongSeveral(api);
  return name.empty() ? "localhost" : name;
}

std::string NodeText(const wire::JobView& job, const std::string& own) {
  if (!job.start_time || IsArray(job)) return "";
  std::string text = Named(job.node, own);
  if (job.allocations.size() > 1) text += "+" + std::to_string(job.allocations.size() - 1);
  return text;
}

std::vector<std::string> AllocationLines(const wire::JobDetail& job, const std::string& own) {
  std::vector<std::string> lines;
  std::int64_t rank = 0;
  for (const wire::AllocationView& allocation : job.allocations) {
    lines.push_back(Named(allocation.node, own) + ": " + Ranks(rank, allocation.tasks) + ", " + Gpus(allocation.gpus));
    rank += allocation.tasks;
  }
  if (!job.request.others.empty()) lines = PartLines(job, own);
  const bool is_somewhere = !job.node.empty() || (job.start_time && !own.empty());
  if (lines.empty() && is_somewhere && !IsArray(job)) lines.push_back(Named(job.node, own));
  return lines;
}

wire::RequestView ComponentOf(const wire::RequestView& request, std::size_t component) {
  wire::RequestView one = request;
  one.others.clear();
  if (component == 0) return one;
  const wire::ComponentView& its = request.others[component - 1];
  one.gpus = its.gpus;
  one.gpu_type = its.gpu_type;
  one.gpu_memory_bytes = its.gpu_memory_bytes;
  one.cpus = its.cpus;
  one.memory_bytes = its.memory_bytes;
  one.tasks = its.tasks;
  one.nodes = its.nodes;
  one.short_nodes = its.short_nodes;
  one.spreads_tasks = its.spreads_tasks;
  one.constraint = its.constraint;
  one.node_list = its.node_list;
  one.excluded_nodes = its.excluded_nodes;
  return one;
}

std::vector<std::string> ComponentLines(const wire::RequestView& request) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i <= request.others.size(); ++i) {
    wire::RequestView one = ComponentOf(request, i);
    one.time_limit_s = 0;
    const std::string pool = i == 0 ? "" : request.others[i - 1].pool;
    lines.push_back(AsksFor(one) + (pool.empty() ? "" : ", pool " + pool));
  }
  return lines;
}

std::string GpuCount(const wire::RequestView& request) {
  if (!request.others.empty()) {
    wire::RequestView one = request;
    one.others.clear();
    std::string text = GpuCount(one);
    for (const wire::ComponentView& its : request.others) {
      one.gpus = its.gpus;
      one.nodes = its.nodes;
      one.short_nodes = its.short_nodes;
      text += "+" + GpuCount(one);
    }
    return text;
  }
  if (request.portion.any()) {
    const std::string part =
        request.portion.is_by_memory() ? PortionText(request.portion) : PartsText(request.portion.request);
    return (request.gpus > 1 ? std::to_string(request.gpus) + "x" : "") + part;
  }
  if (!request.slice.empty()) return request.slice;
  const std::string gpus = std::to_string(request.gpus);
  if (request.short_nodes > 0) {
    const auto on = [](std::int64_t nodes, std::int64_t each) {
      return (nodes > 1 ? std::to_string(nodes) + "x" : "") + std::to_string(each);
    };
    return on(request.nodes - request.short_nodes, request.gpus) + "+" + on(request.short_nodes, request.gpus - 1);
  }
  if (request.nodes > 1) return std::to_string(request.nodes) + "x" + gpus;
  return gpus + (request.max_gpus > 0 ? ".." + std::to_string(request.max_gpus) : "");
}

bool EndsByDeadline(const wire::RequestView& request, std::optional<double> start_time) {
  // A run's limit is rounded to the second in which it really began.
  constexpr double kSlackS = 2;
  return start_time && request.end_by && request.time_limit_s > 0 &&
         std::abs(*start_time + request.time_limit_s - *request.end_by) <= kSlackS;
}

std::string AsksFor(const wire::RequestView& request) {
  std::string asks = request.portion.any() ? PortionText(request.portion) + " of " +
                                                 (request.gpus > 1 ? "each of " + Plural(request.gpus, "GPU") : "a GPU")
                     : !request.slice.empty() ? "a MIG instance " + request.slice + " of a GPU"
                     : request.gpus == 0      ? "no GPU"
                     : request.max_gpus > 0   ? GpuCount(request) + " GPUs"
                                              : Plural(request.gpus, "GPU");
  const std::string each = request.nodes > 1 ? " each" : "";
  if (request.short_nodes > 0)
    asks = Plural(request.nodes, "node") + " with " + Plural(GpusOnAllNodes(request), "GPU") + " in total";
  else if (request.nodes > 1) asks = Plural(request.nodes, "node") + " with " + asks + each;
  if (!request.gpu_type.empty()) asks += " of type " + request.gpu_type;
  if (!request.topology.empty()) asks += ", topology " + request.topology;
  if (request.gpu_memory_bytes > 0)
    asks += ", " + dialect::FormatSize(Bytes(request.gpu_memory_bytes)) + " on each" + (each.empty() ? "" : " GPU");
  if (request.cpus > 0) asks += ", " + Plural(request.cpus, "CPU") + each;
  if (request.memory_bytes > 0) asks += ", " + dialect::FormatSize(Bytes(request.memory_bytes)) + " of memory" + each;
  if (request.tasks > 1 && (request.nodes > 1 || request.spreads_tasks)) {
    asks += ", " + Plural(request.tasks, "task");
    if (request.spreads_tasks) asks += " on as few nodes as possible";
  }
  if (!request.constraint.empty()) asks += ", where " + request.constraint;
  if (!request.node_list.empty()) asks += ", on " + dialect::FoldHostList(request.node_list);
  if (!request.excluded_nodes.empty()) asks += ", not on " + dialect::FoldHostList(request.excluded_nodes);
  if (request.time_limit_s > 0)
    asks += ", at most " + dialect::FormatDuration(Duration(static_cast<std::int64_t>(request.time_limit_s * 1e9)));
  return asks;
}

}  // namespace divvy::cli
