#include "engine/core/state/ask.h"

#include <algorithm>

namespace divvy::core {

Locality ClosestOf(const Ask& ask) { return std::max(ask.together, ask.widest); }

Locality WidestOf(const Ask& ask) {
  return std::max(ask.widest, ask.requires_together ? ask.together : Locality::kAnywhere);
}

Ask ComponentAsk(const Ask& ask, std::uint8_t component) {
  Ask one = ask;
  std::erase_if(one.groups, [&](const TaskGroup& group) { return group.component != component; });
  for (TaskGroup& group : one.groups) group.component = 0;
  const TaskGroup& first = one.groups.front();
  one.mixes_models = false;
  one.alike = first.alternatives.size() > 1;
  one.together = first.apart ? Locality::kRack : first.least > 1 ? Locality::kNode : Locality::kAnywhere;
  one.wants_few_nodes = one.together == Locality::kNode && ask.placement != PlacementStrategy::kSpread;
  return one;
}

std::int64_t LeastGpuParts(const Ask& ask) {
  std::int64_t sum = 0;
  for (const TaskGroup& group : ask.groups) sum += std::int64_t{group.least} * group.alternatives.front().gpu_parts();
  return sum;
}

int LeastTasks(const Ask& ask) {
  int sum = 0;
  for (const TaskGroup& group : ask.groups) sum += group.least;
  return sum;
}

bool WantsGpu(const Ask& ask) {
  return std::any_of(ask.groups.begin(), ask.groups.end(),
                     [](const TaskGroup& group) { return group.alternatives.front().gpus > 0; });
}

bool IsElastic(const Ask& ask) {
  return std::any_of(ask.groups.begin(), ask.groups.end(),
                     [](const TaskGroup& group) { return group.most > group.least; });
}

bool TakesOneAlternative(const Ask& ask) {
  const bool is_several = LeastTasks(ask) > 1 || ask.groups.size() > 1 || IsElastic(ask);
  return ask.alike && is_several && ask.groups.front().alternatives.size() > 1;
}

Ask Narrowed(const Ask& ask, std::size_t alternative) {
  Ask narrow = ask;
  narrow.alike = false;
  for (TaskGroup& group : narrow.groups) {
    group.alternatives = {group.alternatives[alternative]};
    group.speeds.clear();
    if (!group.filters.empty()) group.filters = {group.filters[alternative]};
  }
  return narrow;
}

GpuUse UseOf(const Ask& ask, const TaskPlacement& piece) {
  const std::int64_t parts = ShapeOf(ask, piece).gpu_parts();
  const std::vector<std::int16_t>& speeds = ask.groups[piece.group].speeds;
  return {parts, piece.alternative < speeds.size() ? parts * speeds[piece.alternative] / 1000 : parts};
}

}  // namespace divvy::core
