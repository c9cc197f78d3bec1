#include "cli/places.h"

#include "base/text.h"
#include "cli/job_text.h"
#include "dialect/quantities.h"
#include "dialect/slurm_hostlist.h"
#include "wire/codec.h"
#include "wire/messages_nodes.h"

namespace divvy::cli {
namespace {

std::string Named(const std::string& node, const std::string& own) { return node.empty() ? own : node; }

std::string Gpus(const std::vector<std::int64_t>& gpus) {
  if (gpus.empty()) return "no GPU";
  return (gpus.size() > 1 ? "GPUs " : "GPU ") + GpuList(gpus);
}

}  // namespace

std::string OwnName(Api& api) {
  const auto text = api.Raw("GET", "/v1/nodes", "");
  if (!text) return "localhost";
  const auto views = wire::Decode<std::vector<wire::NodeView>>(*text);
  if (!views) return "localhost";
  for (const wire::NodeView& view : *views) {
    if (view.is_controller) return view.name;
  }
  return "localhost";
}

std::string NodeText(const wire::JobView& job, const std::string& own) {
  if (!job.start_time) return "";
  std::string text = Named(job.node, own);
  if (job.seats.size() > 1) text += "+" + std::to_string(job.seats.size() - 1);
  return text;
}

std::vector<std::string> SeatLines(const wire::JobDetail& job, const std::string& own) {
  std::vector<std::string> lines;
  std::int64_t rank = 0;
  for (const wire::SeatView& seat : job.seats) {
    const std::string ranks = seat.tasks > 1
                                  ? "ranks " + std::to_string(rank) + "-" + std::to_string(rank + seat.tasks - 1)
                                  : "rank " + std::to_string(rank);
    lines.push_back(Named(seat.node, own) + ": " + ranks + ", " + Gpus(seat.gpus));
    rank += seat.tasks;
  }
  if (lines.empty() && !job.node.empty()) lines.push_back(job.node);
  return lines;
}

std::string GpuCount(const wire::RequestView& request) {
  const std::string gpus = std::to_string(request.gpus);
  if (request.nodes > 1) return std::to_string(request.nodes) + "x" + gpus;
  return gpus + (request.gpus_most > 0 ? ".." + std::to_string(request.gpus_most) : "");
}

std::string AsksFor(const wire::RequestView& request) {
  std::string asks = request.gpus == 0       ? "no GPU"
                     : request.gpus_most > 0 ? GpuCount(request) + " GPUs"
                                             : Plural(request.gpus, "GPU");
  const std::string each = request.nodes > 1 ? " each" : "";
  if (request.nodes > 1) asks = Plural(request.nodes, "machine") + " with " + asks + each;
  if (!request.gpu_type.empty()) asks += " of type " + request.gpu_type;
  if (!request.topology.empty()) asks += ", topology " + request.topology;
  if (request.gpu_memory_bytes > 0)
    asks += ", " + dialect::FormatSize(Bytes(request.gpu_memory_bytes)) + " on each" + (each.empty() ? "" : " GPU");
  if (request.cpus > 0) asks += ", " + Plural(request.cpus, "CPU") + each;
  if (request.memory_bytes > 0) asks += ", " + dialect::FormatSize(Bytes(request.memory_bytes)) + " of memory" + each;
  if (request.tasks > 1 && (request.nodes > 1 || request.spreads_tasks)) {
    asks += ", " + Plural(request.tasks, "task");
    if (request.spreads_tasks) asks += " on as few machines as it takes";
  }
  if (!request.constraint.empty()) asks += ", where " + request.constraint;
  if (!request.node_list.empty()) asks += ", on " + dialect::FoldHostList(request.node_list);
  if (!request.excluded_nodes.empty()) asks += ", not on " + dialect::FoldHostList(request.excluded_nodes);
  if (request.time_limit_s > 0)
    asks += ", at most " + dialect::FormatDuration(Duration(static_cast<std::int64_t>(request.time_limit_s * 1e9)));
  return asks;
}

}  // namespace divvy::cli
