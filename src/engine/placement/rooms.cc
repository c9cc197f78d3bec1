#include "engine/placement/rooms.h"

#include <algorithm>

namespace divvy::placement {

Rooms::Most Rooms::MostOf(std::span<const NodeState> nodes) {
  Most most;
  most.is_known = true;
  for (const NodeState& node : nodes) {
    most.whole = std::max(most.whole, node.whole);
    most.gpu_parts = std::max(most.gpu_parts, node.most_free);
    most.is_sliceable = most.is_sliceable || !node.sliceable.empty();
    most.cpu_milli = std::max(most.cpu_milli, node.cpu_free);
    most.memory_mib = std::max(most.memory_mib, node.memory_free);
    most.models |= ModelSet{1} << node.model;
  }
  return most;
}

bool Rooms::MayFit(std::size_t block, std::span<const NodeState> nodes, const Shape& shape) {
  Most& most = blocks_[block];
  if (!most.is_known) {
    const std::size_t first = block * kBlock;
    most = MostOf(nodes.subspan(first, std::min(kBlock, nodes.size() - first)));
  }
  if (shape.cpu_milli > most.cpu_milli || shape.memory_mib > most.memory_mib) return false;
  if ((shape.models & most.models) == 0) return false;
  if (shape.gpus == 0) return true;
  if (shape.slice) return most.is_sliceable;
  return shape.is_whole() ? shape.gpus <= most.whole : shape.parts <= most.gpu_parts;
}

}  // namespace divvy::placement
