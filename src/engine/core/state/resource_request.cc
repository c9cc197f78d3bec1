#include "engine/core/state/resource_request.h"

#include <algorithm>

namespace divvy::core {

Locality ClosestOf(const ResourceRequest& request) { return std::max(request.locality, request.widest); }

Locality WidestOf(const ResourceRequest& request) {
  return std::max(request.widest, request.requires_locality ? request.locality : Locality::kAnywhere);
}

ResourceRequest ComponentRequest(const ResourceRequest& request, std::uint8_t component) {
  ResourceRequest one = request;
  std::erase_if(one.groups, [&](const TaskGroup& group) { return group.component != component; });
  for (TaskGroup& group : one.groups) group.component = 0;
  const TaskGroup& first = one.groups.front();
  one.mixes_models = false;
  one.alike = first.alternatives.size() > 1;
  one.locality = first.anti_affinity ? Locality::kRack : first.least > 1 ? Locality::kNode : Locality::kAnywhere;
  one.wants_few_nodes = one.locality == Locality::kNode && request.placement != PlacementStrategy::kSpread;
  return one;
}

int LeastWithLarger(const ResourceRequest& request, std::size_t group) {
  const TaskGroup& own = request.groups[group];
  const Shape& shape = own.alternatives.front();
  const auto is_larger = [&](const TaskGroup& other) {
    const Shape& its = other.alternatives.front();
    return its.gpu_parts() > shape.gpu_parts() && other.component == own.component && other.filters == own.filters &&
           its.models == shape.models && its.cpu_milli >= shape.cpu_milli && its.memory_mib >= shape.memory_mib;
  };
  int sum = own.least;
  for (const TaskGroup& other : request.groups) {
    if (own.anti_affinity && is_larger(other)) sum += other.least;
  }
  return sum;
}

std::int64_t LeastGpuParts(const ResourceRequest& request) {
  std::int64_t sum = 0;
  for (const TaskGroup& group : request.groups)
    sum += std::int64_t{group.least} * group.alternatives.front().gpu_parts();
  return sum;
}

int LeastTasks(const ResourceRequest& request) {
  int sum = 0;
  for (const TaskGroup& group : request.groups) sum += group.least;
  return sum;
}

bool WantsGpu(const ResourceRequest& request) {
  return std::any_of(request.groups.begin(), request.groups.end(),
                     [](const TaskGroup& group) { return group.alternatives.front().gpus > 0; });
}

bool IsElastic(const ResourceRequest& request) {
  return std::any_of(request.groups.begin(), request.groups.end(),
                     [](const TaskGroup& group) { return group.most > group.least; });
}

bool TakesOneAlternative(const ResourceRequest& request) {
  const bool is_several = LeastTasks(request) > 1 || request.groups.size() > 1 || IsElastic(request);
  return request.alike && is_several && request.groups.front().alternatives.size() > 1;
}

ResourceRequest Narrowed(const ResourceRequest& request, std::size_t alternative) {
  ResourceRequest narrow = request;
  narrow.alike = false;
  for (TaskGroup& group : narrow.groups) {
    group.alternatives = {group.alternatives[alternative]};
    group.speeds.clear();
    if (!group.filters.empty()) group.filters = {group.filters[alternative]};
  }
  return narrow;
}

GpuUse UseOf(const ResourceRequest& request, const TaskPlacement& placed) {
  const std::int64_t parts = ShapeOf(request, placed).gpu_parts();
  const std::vector<std::int16_t>& speeds = request.groups[placed.group].speeds;
  return {parts, placed.alternative < speeds.size() ? parts * speeds[placed.alternative] / 1000 : parts};
}

}  // namespace divvy::core
