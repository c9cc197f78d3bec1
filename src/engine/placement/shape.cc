#include "engine/placement/shape.h"

#include <algorithm>

#include "base/result.h"

namespace divvy::placement {
namespace {

void Recount(NodeState& node) {
  node.whole = 0;
  node.most_free = 0;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    const std::int16_t free = node.free_milli[static_cast<std::size_t>(gpu)];
    node.whole = static_cast<std::uint8_t>(node.whole + (free == kGpuMilli));
    node.most_free = std::max(node.most_free, free);
  }
}

void Change(NodeState& node, const Shape& shape, GpuMask gpus, int sign) {
  node.cpu_free -= sign * shape.cpu_milli;
  node.memory_free -= sign * shape.memory_mib;
  auto& held = node.held[static_cast<std::size_t>(KindOf(shape))];
  held = static_cast<std::uint16_t>(held + sign);
  if (gpus == 0) return;
  node.gpu_free -= sign * shape.gpu_milli();
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (((gpus >> gpu) & 1) == 0) continue;
    auto& free = node.free_milli[static_cast<std::size_t>(gpu)];
    free = static_cast<std::int16_t>(free - sign * shape.milli);
    DIVVY_ASSERT(free >= 0 && free <= kGpuMilli);
  }
  Recount(node);
}

/// The fitting GPUs, best by `is_better(free of a, free of b)`; equals in index order.
template <typename Better>
GpuMask Select(const NodeState& node, const Shape& shape, Better is_better) {
  GpuMask chosen = 0;
  for (int count = 0; count < shape.gpus; ++count) {
    int best = -1;
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      const auto free = node.free_milli[static_cast<std::size_t>(gpu)];
      if (((chosen >> gpu) & 1) != 0 || free < shape.milli) continue;
      if (best < 0 || is_better(free, node.free_milli[static_cast<std::size_t>(best)])) best = gpu;
    }
    DIVVY_ASSERT(best >= 0);
    chosen = static_cast<GpuMask>(chosen | (1u << best));
  }
  return chosen;
}

}  // namespace

int KindOf(const Shape& shape) {
  if (shape.gpus == 0) return 0;
  if (shape.is_share()) return 1;
  if (shape.gpus <= 2) return shape.gpus + 1;
  return shape.gpus <= 4 ? 4 : 5;
}

NodeState MakeNode(std::int32_t cpu_milli, std::int32_t memory_mib, int gpus, int model) {
  DIVVY_ASSERT(gpus >= 0 && gpus <= kMaxGpus && model >= 0 && model < kMaxModels);
  NodeState node;
  node.cpu_free = cpu_milli;
  node.memory_free = memory_mib;
  node.gpu_free = gpus * kGpuMilli;
  node.gpus = static_cast<std::uint8_t>(gpus);
  node.model = static_cast<std::uint8_t>(model);
  for (int gpu = 0; gpu < gpus; ++gpu) node.free_milli[static_cast<std::size_t>(gpu)] = kGpuMilli;
  Recount(node);
  return node;
}

int CountFitting(const NodeState& node, int milli) {
  int count = 0;
  for (int gpu = 0; gpu < node.gpus; ++gpu) count += node.free_milli[static_cast<std::size_t>(gpu)] >= milli;
  return count;
}

void Take(NodeState& node, const Shape& shape, GpuMask gpus) {
  Change(node, shape, gpus, 1);
  DIVVY_ASSERT(node.cpu_free >= 0 && node.memory_free >= 0);
}

void Release(NodeState& node, const Shape& shape, GpuMask gpus) { Change(node, shape, gpus, -1); }

void Block(NodeState& node, GpuMask gpus) {
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (((gpus >> gpu) & 1) == 0) continue;
    auto& free = node.free_milli[static_cast<std::size_t>(gpu)];
    node.gpu_free -= free;
    free = 0;
  }
  Recount(node);
}

GpuMask TightestGpus(const NodeState& node, const Shape& shape) {
  return Select(node, shape, [](int a, int b) { return a < b; });
}

GpuMask FirstGpus(const NodeState& node, const Shape& shape) {
  return Select(node, shape, [](int, int) { return false; });
}

GpuMask RoomiestGpus(const NodeState& node, const Shape& shape) {
  return Select(node, shape, [](int a, int b) { return a > b; });
}

}  // namespace divvy::placement
