#include "engine/placement/shape.h"

#include <algorithm>
#include <bit>

#include "base/result.h"

namespace divvy::placement {
namespace {

int StartOf(const GpuPlace& place) { return std::countr_zero(place.slices); }

/// The GPUs of the set that the node has.
GpuSet Within(const NodeState& node, GpuSet gpus) { return gpus & GpuSet::FirstN(node.gpus); }

GpuRoom& RoomOfGpu(NodeState& node, int gpu) { return node.rooms()[static_cast<std::size_t>(gpu)]; }

/// The room for instances that a GPU still has: the sum over all profiles, in memory slices.
int WorthOf(const MigCut& cut) {
  int worth = 0;
  for (int i = 0; i < kMigProfiles; ++i) {
    const auto profile = static_cast<MigProfile>(i);
    worth += MigRoom(cut, profile) * MemorySlices(profile);
  }
  return worth;
}

// Bonuses for GPUs that have MIG instances already, and for GPUs in MIG mode. They are larger than any loss of room for
// larger profiles, so they decide first.
constexpr int kCutAlready = 2000;
constexpr int kCarvedAlready = 1000;

/// The score of one GPU. Requires: FitsSlice.
std::int32_t SliceScoreOn(const NodeState& node, int gpu, MigProfile profile) {
  const MigCut before = RoomOfGpu(node, gpu).cut;
  MigCut after = before;
  MigTake(after, profile, *ChooseMigStart(before, profile));
  const int loss = WorthOf(before) - WorthOf(after);
  if (before != MigCut{}) return kCutAlready - loss;
  return (node.carved.Contains(gpu) ? kCarvedAlready : 0) + kCarvedAlready - 1 - loss;
}

void Recount(NodeState& node) {
  node.whole = 0;
  node.most_free = 0;
  for (const GpuRoom& room : node.rooms()) {
    node.whole = static_cast<std::uint8_t>(node.whole + (room.free_parts == kGpuParts));
    node.most_free = std::max(node.most_free, room.free_parts);
  }
}

void Change(NodeState& node, const Shape& shape, const GpuPlace& place, int sign) {
  node.cpu_free -= sign * shape.cpu_milli;
  node.memory_free -= sign * shape.memory_mib;
  auto& held = node.held[static_cast<std::size_t>(KindOf(shape))];
  held = static_cast<std::uint16_t>(held + sign);
  if (place.gpus.empty()) return;
  const GpuSet gpus = Within(node, place.gpus);
  for (const int gpu : gpus) {
    GpuRoom& room = RoomOfGpu(node, gpu);
    const int before = room.free_parts;
    if (shape.slice) {
      if (sign > 0) MigTake(room.cut, *shape.slice, StartOf(place));
      else MigRelease(room.cut, *shape.slice, StartOf(place));
      room.free_parts = room.cut == MigCut{} ? WhollyFree(node, gpu) : std::int16_t{0};
    } else {
      room.free_parts = static_cast<std::int16_t>(room.free_parts - sign * shape.parts);
      room.memory_free -= sign * shape.gpu_memory_mib;
      DIVVY_ASSERT(room.free_parts >= 0 && room.free_parts <= kGpuParts && room.memory_free >= 0);
    }
    node.gpu_free += room.free_parts - before;
  }
  if (sign > 0) node.carved = shape.slice ? node.carved | gpus : node.carved - gpus;
  Recount(node);
}

/// Selects fitting GPUs, best by `is_better(free of a, free of b)`; ties in index order.
template <typename Better>
GpuPlace Select(const NodeState& node, const Shape& shape, Better is_better) {
  if (shape.slice || shape.is_whole()) return FirstGpus(node, shape);
  GpuPlace chosen;
  for (int count = 0; count < shape.gpus; ++count) {
    int best = -1;
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      if (chosen.gpus.Contains(gpu) || !FitsGpu(node, gpu, shape)) continue;
      if (best < 0 || is_better(RoomOfGpu(node, gpu).free_parts, RoomOfGpu(node, best).free_parts)) best = gpu;
    }
    DIVVY_ASSERT(best >= 0);
    chosen.gpus.Insert(best);
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
  DIVVY_ASSERT(gpus >= 0 && gpus <= GpuSet::kCapacity && model >= 0 && model < kMaxModels);
  NodeState node;
  node.cpu_free = cpu_milli;
  node.memory_free = memory_mib;
  node.gpu_free = gpus * kGpuParts;
  node.gpus = static_cast<std::uint8_t>(gpus);
  node.model = static_cast<std::uint8_t>(model);
  if (gpus > NodeState::kFewGpus) node.many_rooms.resize(static_cast<std::size_t>(gpus));
  for (GpuRoom& room : node.rooms()) room = {kPlentyMib, kGpuParts, {}};
  Recount(node);
  return node;
}

void MakeSliceable(NodeState& node, GpuSet sliceable, GpuSet only_sliced) {
  node.sliceable = sliceable;
  node.only_sliced = sliceable & only_sliced;
  for (const int gpu : Within(node, node.only_sliced)) {
    GpuRoom& room = RoomOfGpu(node, gpu);
    node.gpu_free -= room.free_parts;
    room.free_parts = 0;
  }
  Recount(node);
}

int CountFitting(const NodeState& node, const Shape& shape) {
  int count = 0;
  for (int gpu = 0; gpu < node.gpus; ++gpu) count += FitsGpu(node, gpu, shape);
  return count;
}

bool FitsOn(const NodeState& node, const Shape& shape, const GpuPlace& place) {
  if (shape.cpu_milli > node.cpu_free || shape.memory_mib > node.memory_free) return false;
  for (const int gpu : Within(node, place.gpus)) {
    if (!shape.slice) {
      if (!FitsGpu(node, gpu, shape)) return false;
      continue;
    }
    if (!IsOpen(node, gpu) || !MigFitsAt(RoomOfGpu(node, gpu).cut, *shape.slice, StartOf(place))) return false;
  }
  return true;
}

void Take(NodeState& node, const Shape& shape, const GpuPlace& place) {
  Change(node, shape, place, 1);
  DIVVY_ASSERT(node.cpu_free >= 0 && node.memory_free >= 0);
}

void Release(NodeState& node, const Shape& shape, const GpuPlace& place) { Change(node, shape, place, -1); }

void Deduct(NodeState& node, const Shape& shape, const GpuPlace& place) {
  for (const int gpu : Within(node, place.gpus)) {
    GpuRoom& room = RoomOfGpu(node, gpu);
    const int before = room.free_parts;
    if (shape.slice) {
      MigCut& cut = room.cut;
      if (!IsOpen(node, gpu)) cut = kFullCut;
      cut.memory = static_cast<std::uint8_t>(cut.memory | place.slices);
      cut.compute = static_cast<std::uint8_t>(std::min(kMigComputeSlices, cut.compute + ComputeSlices(*shape.slice)));
      room.free_parts = 0;
    } else {
      room.free_parts = static_cast<std::int16_t>(std::max(0, before - shape.parts));
      room.memory_free = std::max(0, room.memory_free - shape.gpu_memory_mib);
      // A share on the GPU leaves no room for instances.
      if (shape.parts > 0 && room.cut != MigCut{}) room.cut = kFullCut;
    }
    node.gpu_free += room.free_parts - before;
  }
  Recount(node);
}

void Block(NodeState& node, GpuSet gpus) {
  for (const int gpu : Within(node, gpus)) {
    GpuRoom& room = RoomOfGpu(node, gpu);
    node.gpu_free -= room.free_parts;
    room = {0, 0, kFullCut};
  }
  Recount(node);
}

void CopyGpu(NodeState& node, const NodeState& from, int gpu) {
  GpuRoom& room = RoomOfGpu(node, gpu);
  node.gpu_free -= room.free_parts;
  room = RoomOfGpu(from, gpu);
  node.gpu_free += room.free_parts;
  Recount(node);
}

NodeState Less(const NodeState& a, const NodeState& b) {
  NodeState less = a;
  less.cpu_free = std::min(a.cpu_free, b.cpu_free);
  less.memory_free = std::min(a.memory_free, b.memory_free);
  less.gpu_free = 0;
  for (int gpu = 0; gpu < less.gpus; ++gpu) {
    GpuRoom& room = RoomOfGpu(less, gpu);
    const GpuRoom& other = RoomOfGpu(b, gpu);
    room.free_parts = std::min(room.free_parts, other.free_parts);
    room.memory_free = std::min(room.memory_free, other.memory_free);
    room.cut.memory = static_cast<std::uint8_t>(room.cut.memory | other.cut.memory);
    room.cut.compute = std::max(room.cut.compute, other.cut.compute);
    if (room.cut != MigCut{} && !(IsOpen(a, gpu) && IsOpen(b, gpu))) room.cut = kFullCut;
    less.gpu_free += room.free_parts;
  }
  Recount(less);
  return less;
}

GpuPlace ChooseSlice(const NodeState& node, MigProfile profile) {
  int best = -1;
  std::int32_t most = 0;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (!FitsSlice(node, gpu, profile)) continue;
    const std::int32_t score = SliceScoreOn(node, gpu, profile);
    if (best >= 0 && score <= most) continue;
    best = gpu;
    most = score;
  }
  DIVVY_ASSERT(best >= 0);
  return {GpuSet::Only(best), MigSlices(profile, *ChooseMigStart(RoomOfGpu(node, best).cut, profile))};
}

std::int32_t SliceScore(const NodeState& node, MigProfile profile) {
  std::int32_t most = 0;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (FitsSlice(node, gpu, profile)) most = std::max(most, SliceScoreOn(node, gpu, profile));
  }
  return most;
}

GpuPlace TightestGpus(const NodeState& node, const Shape& shape) {
  return Select(node, shape, [](int a, int b) { return a < b; });
}

GpuPlace FirstGpus(const NodeState& node, const Shape& shape) {
  if (shape.slice) return ChooseSlice(node, *shape.slice);
  GpuPlace chosen;
  int left = shape.gpus;
  for (int gpu = 0; gpu < node.gpus && left > 0; ++gpu) {
    if (!FitsGpu(node, gpu, shape)) continue;
    chosen.gpus.Insert(gpu);
    --left;
  }
  DIVVY_ASSERT(left == 0);
  return chosen;
}

GpuPlace RoomiestGpus(const NodeState& node, const Shape& shape) {
  return Select(node, shape, [](int a, int b) { return a > b; });
}

}  // namespace divvy::placement
