#include "engine/placement/shape.h"

#include <algorithm>
#include <bit>

#include "base/result.h"

namespace divvy::placement {
namespace {

int StartOf(GpuMask place) { return std::countr_zero(SlicesOf(place)); }

/// What all profiles together could still be cut out of a GPU, counted in the memory slices of each.
int WorthOf(const MigCut& cut) {
  int worth = 0;
  for (int i = 0; i < kMigProfiles; ++i) {
    const auto profile = static_cast<MigProfile>(i);
    worth += MigRoom(cut, profile) * MemorySlices(profile);
  }
  return worth;
}

// Above every loss that a cut can be: which GPUs come first.
constexpr int kCutAlready = 2000;
constexpr int kCarvedAlready = 1000;

/// Of one GPU. Requires: FitsSlice.
std::int32_t SliceScoreOn(const NodeState& node, std::size_t gpu, MigProfile profile) {
  const MigCut before = node.cuts[gpu];
  MigCut after = before;
  MigTake(after, profile, *ChooseMigStart(before, profile));
  const int loss = WorthOf(before) - WorthOf(after);
  if (before != MigCut{}) return kCutAlready - loss;
  return (((node.carved >> gpu) & 1) != 0 ? kCarvedAlready : 0) + kCarvedAlready - 1 - loss;
}

void Recount(NodeState& node) {
  node.whole = 0;
  node.most_free = 0;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    const std::int16_t free = node.free_parts[static_cast<std::size_t>(gpu)];
    node.whole = static_cast<std::uint8_t>(node.whole + (free == kGpuParts));
    node.most_free = std::max(node.most_free, free);
  }
}

void Change(NodeState& node, const Shape& shape, GpuMask gpus, int sign) {
  node.cpu_free -= sign * shape.cpu_milli;
  node.memory_free -= sign * shape.memory_mib;
  auto& held = node.held[static_cast<std::size_t>(KindOf(shape))];
  held = static_cast<std::uint16_t>(held + sign);
  if (gpus == 0) return;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (((gpus >> gpu) & 1) == 0) continue;
    const auto at = static_cast<std::size_t>(gpu);
    auto& free = node.free_parts[at];
    const int before = free;
    if (shape.slice) {
      if (sign > 0) MigTake(node.cuts[at], *shape.slice, StartOf(gpus));
      else MigRelease(node.cuts[at], *shape.slice, StartOf(gpus));
      free = node.cuts[at] == MigCut{} ? WhollyFree(node, at) : std::int16_t{0};
    } else {
      free = static_cast<std::int16_t>(free - sign * shape.parts);
      node.gpu_memory_free[at] -= sign * shape.gpu_memory_mib;
      DIVVY_ASSERT(free >= 0 && free <= kGpuParts && node.gpu_memory_free[at] >= 0);
    }
    node.gpu_free += free - before;
    if (sign < 0) continue;
    const auto bit = static_cast<std::uint16_t>(1u << gpu);
    node.carved = static_cast<std::uint16_t>(shape.slice ? node.carved | bit : node.carved & ~bit);
  }
  Recount(node);
}

/// The fitting GPUs, best by `is_better(free of a, free of b)`; equals in index order.
template <typename Better>
GpuMask Select(const NodeState& node, const Shape& shape, Better is_better) {
  if (shape.slice) return ChooseSlice(node, *shape.slice);
  GpuMask chosen = 0;
  for (int count = 0; count < shape.gpus; ++count) {
    int best = -1;
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      const auto free = node.free_parts[static_cast<std::size_t>(gpu)];
      if (((chosen >> gpu) & 1) != 0 || !FitsGpu(node, gpu, shape)) continue;
      if (best < 0 || is_better(free, node.free_parts[static_cast<std::size_t>(best)])) best = gpu;
    }
    DIVVY_ASSERT(best >= 0);
    chosen = static_cast<GpuMask>(chosen | (1u << best));
  }
  return chosen;
}

}  // namespace

Shape SliceShape(MigProfile profile) {
  Shape shape;
  shape.gpus = 1;
  shape.slice = profile;
  shape.parts = static_cast<std::int16_t>(kGpuParts * MemorySlices(profile) / kMigMemorySlices);
  return shape;
}

int KindOf(const Shape& shape) {
  if (shape.gpus == 0) return 0;
  if (shape.is_share() || shape.slice) return 1;
  if (shape.gpus <= 2) return shape.gpus + 1;
  return shape.gpus <= 4 ? 4 : 5;
}

NodeState MakeNode(std::int32_t cpu_milli, std::int32_t memory_mib, int gpus, int model) {
  DIVVY_ASSERT(gpus >= 0 && gpus <= kMaxGpus && model >= 0 && model < kMaxModels);
  NodeState node;
  node.cpu_free = cpu_milli;
  node.memory_free = memory_mib;
  node.gpu_free = gpus * kGpuParts;
  node.gpus = static_cast<std::uint8_t>(gpus);
  node.model = static_cast<std::uint8_t>(model);
  for (std::size_t gpu = 0; gpu < node.gpus; ++gpu) {
    node.free_parts[gpu] = kGpuParts;
    node.gpu_memory_free[gpu] = kPlentyMib;
  }
  Recount(node);
  return node;
}

void MakeSliceable(NodeState& node, GpuMask sliceable, GpuMask only_sliced) {
  node.sliceable = static_cast<std::uint16_t>(sliceable);
  node.only_sliced = static_cast<std::uint16_t>(sliceable & only_sliced);
  for (std::size_t gpu = 0; gpu < node.gpus; ++gpu) {
    if (((node.only_sliced >> gpu) & 1) == 0) continue;
    node.gpu_free -= node.free_parts[gpu];
    node.free_parts[gpu] = 0;
  }
  Recount(node);
}

int CountFitting(const NodeState& node, const Shape& shape) {
  int count = 0;
  for (int gpu = 0; gpu < node.gpus; ++gpu) count += FitsGpu(node, gpu, shape);
  return count;
}

bool FitsOn(const NodeState& node, const Shape& shape, GpuMask gpus) {
  if (shape.cpu_milli > node.cpu_free || shape.memory_mib > node.memory_free) return false;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (((gpus >> gpu) & 1) == 0) continue;
    const auto at = static_cast<std::size_t>(gpu);
    if (!shape.slice) {
      if (!FitsGpu(node, gpu, shape)) return false;
      continue;
    }
    if (!IsOpen(node, at) || !MigFitsAt(node.cuts[at], *shape.slice, StartOf(gpus))) return false;
  }
  return true;
}

void Take(NodeState& node, const Shape& shape, GpuMask gpus) {
  Change(node, shape, gpus, 1);
  DIVVY_ASSERT(node.cpu_free >= 0 && node.memory_free >= 0);
}

void Release(NodeState& node, const Shape& shape, GpuMask gpus) { Change(node, shape, gpus, -1); }

void Deduct(NodeState& node, const Shape& shape, GpuMask gpus) {
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (((gpus >> gpu) & 1) == 0) continue;
    const auto at = static_cast<std::size_t>(gpu);
    const int before = node.free_parts[at];
    if (shape.slice) {
      MigCut& cut = node.cuts[at];
      if (!IsOpen(node, at)) cut = kFullCut;
      cut.memory = static_cast<std::uint8_t>(cut.memory | SlicesOf(gpus));
      cut.compute = static_cast<std::uint8_t>(std::min(kMigComputeSlices, cut.compute + ComputeSlices(*shape.slice)));
      node.free_parts[at] = 0;
    } else {
      node.free_parts[at] = static_cast<std::int16_t>(std::max(0, before - shape.parts));
      node.gpu_memory_free[at] = std::max(0, node.gpu_memory_free[at] - shape.gpu_memory_mib);
      // Who gets a share of it leaves no room for instances.
      if (shape.parts > 0 && node.cuts[at] != MigCut{}) node.cuts[at] = kFullCut;
    }
    node.gpu_free += node.free_parts[at] - before;
  }
  Recount(node);
}

void Block(NodeState& node, GpuMask gpus) {
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (((gpus >> gpu) & 1) == 0) continue;
    const auto at = static_cast<std::size_t>(gpu);
    node.gpu_free -= node.free_parts[at];
    node.free_parts[at] = 0;
    node.gpu_memory_free[at] = 0;
    node.cuts[at] = kFullCut;
  }
  Recount(node);
}

void CopyGpu(NodeState& node, const NodeState& from, int gpu) {
  const auto at = static_cast<std::size_t>(gpu);
  node.gpu_free += from.free_parts[at] - node.free_parts[at];
  node.free_parts[at] = from.free_parts[at];
  node.gpu_memory_free[at] = from.gpu_memory_free[at];
  node.cuts[at] = from.cuts[at];
  Recount(node);
}

NodeState Less(const NodeState& a, const NodeState& b) {
  NodeState less = a;
  less.cpu_free = std::min(a.cpu_free, b.cpu_free);
  less.memory_free = std::min(a.memory_free, b.memory_free);
  less.gpu_free = 0;
  for (std::size_t gpu = 0; gpu < less.gpus; ++gpu) {
    less.free_parts[gpu] = std::min(a.free_parts[gpu], b.free_parts[gpu]);
    less.gpu_memory_free[gpu] = std::min(a.gpu_memory_free[gpu], b.gpu_memory_free[gpu]);
    MigCut& cut = less.cuts[gpu];
    cut.memory = static_cast<std::uint8_t>(a.cuts[gpu].memory | b.cuts[gpu].memory);
    cut.compute = std::max(a.cuts[gpu].compute, b.cuts[gpu].compute);
    if (cut != MigCut{} && !(IsOpen(a, gpu) && IsOpen(b, gpu))) cut = kFullCut;
    less.gpu_free += less.free_parts[gpu];
  }
  Recount(less);
  return less;
}

GpuMask ChooseSlice(const NodeState& node, MigProfile profile) {
  int best = -1;
  std::int32_t most = 0;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    const auto at = static_cast<std::size_t>(gpu);
    if (!FitsSlice(node, at, profile)) continue;
    const std::int32_t score = SliceScoreOn(node, at, profile);
    if (best >= 0 && score <= most) continue;
    best = gpu;
    most = score;
  }
  DIVVY_ASSERT(best >= 0);
  const int start = *ChooseMigStart(node.cuts[static_cast<std::size_t>(best)], profile);
  return (GpuMask{1} << best) | (GpuMask{MigSlices(profile, start)} << kMaxGpus);
}

std::int32_t SliceScore(const NodeState& node, MigProfile profile) {
  std::int32_t most = 0;
  for (std::size_t gpu = 0; gpu < node.gpus; ++gpu) {
    if (FitsSlice(node, gpu, profile)) most = std::max(most, SliceScoreOn(node, gpu, profile));
  }
  return most;
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
