#include "control/books/job_changes.h"

#include <algorithm>

namespace divvy {
namespace {

/// Lists the plain fields: name, change and target.
template <typename Visit>
void EachForWaiting(const JobChanges& changes, JobRecord& record, Visit visit) {
  visit("gpus", changes.gpus, record.request.gpus);
  visit("gpu-type", changes.gpu_type, record.request.gpu_type);
  visit("gpu-memory", changes.gpu_memory, record.request.gpu_memory);
  visit("GPU fraction", changes.portion, record.request.portion);
  visit("slice", changes.slice, record.request.slice);
  visit("cpus", changes.cpus, record.request.cpus);
  visit("memory", changes.memory, record.request.memory);
  visit("tasks", changes.tasks, record.request.tasks);
  visit("nodes", changes.nodes, record.request.nodes);
  visit("constraint", changes.constraint, record.request.constraint);
  visit("nodelist", changes.node_list, record.request.node_list);
  visit("exclude", changes.excluded_nodes, record.request.excluded_nodes);
  visit("placement", changes.placement, record.placement);
  visit("preemptible", changes.preemptible, record.preemptible);
  visit("begin", changes.begin, record.begin);
  visit("deadline", changes.end_by, record.end_by);
  visit("keep-waiting", changes.keeps_waiting, record.keeps_waiting);
  visit("group", changes.group, record.group);
}

template <typename Visit>
void EachUntilTheEnd(const JobChanges& changes, JobRecord& record, Visit visit) {
  visit("priority", changes.priority, record.priority);
  visit("time", changes.time_limit, record.time_limit);
  visit("name", changes.name, record.name);
  visit("project", changes.project, record.project);
  visit("comment", changes.comment, record.comment);
  visit("retries", changes.retries, record.retries);
  visit("retry-delay", changes.retry_delay, record.retry_delay);
  visit("requeue-after-reboot", changes.requeues_after_reboot, record.requeues_after_reboot);
  visit("at-once", changes.array_at_once, record.array_at_once);
}

/// A slice replaces everything else that the request says about GPUs.
void TakeSlice(Request& request) {
  request.gpus = 1;
  request.max_gpus = 0;
  request.gpu_memory = Bytes();
  request.portion = GpuPortion();
}

auto Collect(std::vector<std::string_view>& names) {
  return [&names](std::string_view name, const auto& change, auto&) {
    if (change) names.push_back(name);
  };
}

constexpr auto kAssign = [](std::string_view, const auto& change, auto& field) {
  if (change) field = *change;
};

}  // namespace

std::vector<std::string_view> JobChanges::NamesForWaiting() const {
  std::vector<std::string_view> names = spec_fields;
  JobRecord none;
  EachForWaiting(*this, none, Collect(names));
  if (pool && std::ranges::find(spec_fields, "pool") == spec_fields.end()) names.push_back("pool");
  if (max_gpus && !gpus) names.push_back("gpus");
  if (topology) names.push_back("topology");
  if (dependencies) names.push_back("dependency");
  return names;
}

std::vector<std::string_view> JobChanges::Names() const {
  std::vector<std::string_view> names = NamesForWaiting();
  JobRecord none;
  EachUntilTheEnd(*this, none, Collect(names));
  return names;
}

void JobChanges::ApplyTo(JobRecord& record) const {
  if (pool) record.pool = *pool;
  const int cap = record.array_at_once;
  const bool has_one_each = record.request.tasks == record.request.nodes;
  if (gpus && !portion) record.request.portion = GpuPortion();  // Whole GPUs from now on.
  if (gpus || portion) record.request.slice.clear();
  if (gpus || nodes) record.request.short_nodes = 0;
  if (slice) TakeSlice(record.request);
  EachForWaiting(*this, record, kAssign);
  EachUntilTheEnd(*this, record, kAssign);
  if (record.array_count == 0) record.array_at_once = cap;  // Elements have no limit of their own.
  if (nodes && !tasks && has_one_each) record.request.tasks = *nodes;
  if (placement) record.is_placement_set = true;
  if (preemptible) record.is_preemptible_set = true;
  if (max_gpus) record.request.max_gpus = *max_gpus;
  if (topology) {
    record.request.topology = topology->need;
    record.request.requires_topology = topology->is_required;
  }
  if (!dependencies) return;
  record.dependencies = dependencies->all;
  record.needs_any_dependency = dependencies->needs_any;
}

}  // namespace divvy
