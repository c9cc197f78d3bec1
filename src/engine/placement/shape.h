// What placement looks at: how much of a node is free, and the shape of a request. Plain values, small enough that a
// hundred thousand nodes fit in a cache and a score costs nanoseconds.
//
// Units: a GPU's compute has kGpuParts parts (ten-thousandths), CPUs are thousandths of a core, memory is MiB.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "engine/placement/mig.h"
#include "model/gpus/gpu_set.h"

namespace divvy::placement {

inline constexpr int kGpuParts = 10'000;
/// GPU models that one fleet may mix: they are kept as bits.
inline constexpr int kMaxModels = 64;

/// Where a request lies on a node: its GPUs and, for a MIG instance, the memory slices that it has of its one GPU.
struct GpuPlace {
  GpuSet gpus;
  std::uint8_t slices = 0;  // Bit s: memory slice s. 0 for everything except a MIG instance.

  friend bool operator==(const GpuPlace&, const GpuPlace&) = default;
};

/// Whether two places have a GPU, or slices of one, in common.
inline bool Overlap(const GpuPlace& a, const GpuPlace& b) {
  const bool are_slices = a.slices != 0 && b.slices != 0;
  return !(a.gpus & b.gpus).empty() && (!are_slices || (a.slices & b.slices) != 0);
}

/// Bit m: GPU model m is allowed.
using ModelSet = std::uint64_t;
inline constexpr ModelSet kAnyModel = std::numeric_limits<ModelSet>::max();

using NodeIndex = std::uint32_t;

/// What a request asks of one node. `gpus` = 0: no GPU; 1 with parts < kGpuParts: a share; else that many GPUs with
/// `parts` (1 at least) of each. SliceShape makes those of MIG instances.
struct Shape {
  std::int32_t cpu_milli = 0;
  std::int32_t memory_mib = 0;
  std::int16_t gpus = 0;
  std::int16_t parts = 0;                          // Of each GPU.
  ModelSet models = kAnyModel;                     // Kinds of nodes, of one without GPUs as well.
  std::int32_t gpu_memory_mib = 0;                 // Of each GPU; 0: none is set apart.
  std::optional<MigProfile> slice = std::nullopt;  // A MIG instance; then gpus = 1, and parts is what it counts as.

  bool is_share() const { return gpus == 1 && parts < kGpuParts && !slice; }
  bool is_whole() const { return gpus > 0 && parts == kGpuParts && !slice; }
  std::int32_t gpu_parts() const { return gpus * parts; }
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// One MIG instance of `profile` on any GPU that can be cut. It counts as its share of the memory: so all instances of
/// a GPU never count as more than the GPU.
Shape SliceShape(MigProfile profile);

/// Requests that published policies treat as of one kind: none, share, 1, 2, 3-4, 5 or more GPUs.
inline constexpr int kKinds = 6;
int KindOf(const Shape& shape);

/// GPU memory of a node that does not say how much it has.
inline constexpr std::int32_t kPlentyMib = std::numeric_limits<std::int32_t>::max() / 2;

/// What is left of one GPU.
struct GpuRoom {
  std::int32_t memory_free = 0;  // MiB.
  std::int16_t free_parts = 0;
  MigCut cut;

  friend bool operator==(const GpuRoom&, const GpuRoom&) = default;
};

/// One node as it is now. Invariants: 0 <= free_parts <= kGpuParts for each GPU; gpu_free is their sum; of a GPU
/// with instances on it nothing is free for others than instances. Copies are frequent: a node of up to kFewGpus GPUs
/// allocates nothing.
struct NodeState {
  static constexpr int kFewGpus = 8;

  std::int32_t cpu_free = 0;
  std::int32_t memory_free = 0;
  std::int32_t gpu_free = 0;   // Parts, of all GPUs.
  std::int16_t most_free = 0;  // Parts of the GPU with the most room.
  std::uint8_t gpus = 0;
  std::uint8_t whole = 0;  // GPUs that are wholly free.
  std::uint8_t model = 0;
  std::array<std::uint16_t, kKinds> held{};  // Requests on the node, by kind.
  GpuSet sliceable;                          // GPUs that can be cut into MIG instances.
  GpuSet only_sliced;                        // Those of them that take nothing else.
  GpuSet carved;  // Those that are given over to instances now, whether there are any or not.
  std::array<GpuRoom, kFewGpus> few_rooms{};  // Use rooms().
  std::vector<GpuRoom> many_rooms;            // The same of a node with more GPUs.

  /// One entry per GPU.
  std::span<GpuRoom> rooms() { return {gpus <= kFewGpus ? few_rooms.data() : many_rooms.data(), gpus}; }
  std::span<const GpuRoom> rooms() const { return {gpus <= kFewGpus ? few_rooms.data() : many_rooms.data(), gpus}; }

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// An idle node.
NodeState MakeNode(std::int32_t cpu_milli, std::int32_t memory_mib, int gpus, int model);

/// Of an idle node: which of its GPUs can be cut, and which of these take nothing else.
void MakeSliceable(NodeState& node, GpuSet sliceable, GpuSet only_sliced);

/// What a GPU on which nothing runs has for others than instances.
inline std::int16_t WhollyFree(const NodeState& node, int gpu) {
  return node.only_sliced.Contains(gpu) ? std::int16_t{0} : std::int16_t{kGpuParts};
}

inline const GpuRoom& RoomOfGpu(const NodeState& node, int gpu) { return node.rooms()[static_cast<std::size_t>(gpu)]; }

/// Instances may be cut out of this GPU: there are some already, or nothing else runs on it.
inline bool IsOpen(const NodeState& node, int gpu) {
  const GpuRoom& room = RoomOfGpu(node, gpu);
  const bool has_others = room.cut == MigCut{} && room.free_parts < WhollyFree(node, gpu);
  return !has_others && node.sliceable.Contains(gpu);
}

inline bool FitsSlice(const NodeState& node, int gpu, MigProfile profile) {
  return IsOpen(node, gpu) && MigFits(RoomOfGpu(node, gpu).cut, profile);
}

/// What one GPU can give of `shape`; the rest of the node is not looked at.
inline bool FitsGpu(const NodeState& node, int gpu, const Shape& shape) {
  if (shape.slice) return FitsSlice(node, gpu, *shape.slice);
  const GpuRoom& room = RoomOfGpu(node, gpu);
  return room.free_parts >= shape.parts && room.memory_free >= shape.gpu_memory_mib;
}

/// GPUs for which FitsGpu holds.
int CountFitting(const NodeState& node, const Shape& shape);

inline bool Fits(const NodeState& node, const Shape& shape) {
  if (shape.cpu_milli > node.cpu_free || shape.memory_mib > node.memory_free) return false;
  if (((shape.models >> node.model) & 1) == 0) return false;
  if (shape.gpus == 0) return true;
  if (shape.slice) return !node.sliceable.empty() && CountFitting(node, shape) > 0;
  if (shape.parts > node.most_free) return false;
  if (shape.gpu_memory_mib > 0) return CountFitting(node, shape) >= shape.gpus;
  if (shape.gpus == 1) return true;
  return (shape.parts == kGpuParts ? node.whole : CountFitting(node, shape)) >= shape.gpus;
}

/// It fits at just this place. Requires: the place is one that such a request can have.
bool FitsOn(const NodeState& node, const Shape& shape, const GpuPlace& place);

/// Requires: Fits, and `place` has shape.gpus GPUs, each with that much room; of an instance a legal place.
void Take(NodeState& node, const Shape& shape, const GpuPlace& place);
/// Undoes Take.
void Release(NodeState& node, const Shape& shape, const GpuPlace& place);

/// As much less as there is: never below nothing. CPUs and memory stay.
void Deduct(NodeState& node, const Shape& shape, const GpuPlace& place);

/// Nothing is left on these GPUs, whatever was.
void Block(NodeState& node, GpuSet gpus);

/// What GPU `gpu` has left becomes what it has in `from`.
void CopyGpu(NodeState& node, const NodeState& from, int gpu);

/// No more than both have.
NodeState Less(const NodeState& a, const NodeState& b);

/// Where to cut an instance: of GPUs that have some already where it costs the larger profiles least, else of those
/// that are given over to instances, else of the others; of equals the lower index. Requires: Fits.
GpuPlace ChooseSlice(const NodeState& node, MigProfile profile);
/// How good that is; higher is better. Requires: Fits.
std::int32_t SliceScore(const NodeState& node, MigProfile profile);

// The following choose for an instance as ChooseSlice does.

/// The `shape.gpus` fitting GPUs with the least room; of equals the lower index.
GpuPlace TightestGpus(const NodeState& node, const Shape& shape);
/// The first `shape.gpus` fitting GPUs.
GpuPlace FirstGpus(const NodeState& node, const Shape& shape);
/// Those with the most room; of equals the lower index.
GpuPlace RoomiestGpus(const NodeState& node, const Shape& shape);

}  // namespace divvy::placement
