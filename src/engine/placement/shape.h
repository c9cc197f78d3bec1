// The inputs of placement: how much of a node is free, and the shape of a request. Plain values, small enough that a
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
/// GPU models that one fleet may mix; a set of models is a bit mask.
inline constexpr int kMaxModels = 64;

/// The location of a request on a node: its GPUs and, for a MIG instance, the memory slices that it uses of its one
/// GPU.
struct GpuPlace {
  GpuSet gpus;
  std::uint8_t slices = 0;  // Bit s: memory slice s. 0 except for MIG instances.

  friend bool operator==(const GpuPlace&, const GpuPlace&) = default;
};

/// Returns whether two places share a GPU, or slices of one.
inline bool Overlap(const GpuPlace& a, const GpuPlace& b) {
  const bool are_slices = a.slices != 0 && b.slices != 0;
  return !(a.gpus & b.gpus).empty() && (!are_slices || (a.slices & b.slices) != 0);
}

/// Bit m: GPU model m is allowed.
using ModelSet = std::uint64_t;
inline constexpr ModelSet kAnyModel = std::numeric_limits<ModelSet>::max();

using NodeIndex = std::uint32_t;

/// A request's needs on one node. `gpus` = 0: no GPU; 1 with parts < kGpuParts: a share; otherwise that many GPUs with
/// `parts` (at least 1) of each. SliceShape makes the shapes of MIG instances.
struct Shape {
  std::int32_t cpu_milli = 0;
  std::int32_t memory_mib = 0;
  std::int16_t gpus = 0;
  std::int16_t parts = 0;                          // Per GPU.
  ModelSet models = kAnyModel;                     // Allowed node classes; applies to requests without GPUs too.
  std::int32_t gpu_memory_mib = 0;                 // Per GPU; 0: none is reserved.
  std::optional<MigProfile> slice = std::nullopt;  // A MIG instance; then gpus = 1, and `parts` is the fraction it is
                                                   // accounted as.

  bool is_share() const { return gpus == 1 && parts < kGpuParts && !slice; }
  bool is_whole() const { return gpus > 0 && parts == kGpuParts && !slice; }
  std::int32_t gpu_parts() const { return gpus * parts; }
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// One MIG instance of `profile` on any GPU that supports MIG. It is accounted as its share of the memory, so all
/// instances of a GPU together never exceed one GPU.
Shape SliceShape(MigProfile profile);

/// Request kinds that published policies distinguish: none, share, 1, 2, 3-4, 5 or more GPUs.
inline constexpr int kKinds = 6;
int KindOf(const Shape& shape);

/// GPU memory of a node that does not report it.
inline constexpr std::int32_t kPlentyMib = std::numeric_limits<std::int32_t>::max() / 2;

/// The free room of one GPU.
struct GpuRoom {
  std::int32_t memory_free = 0;  // MiB.
  std::int16_t free_parts = 0;
  MigCut cut;

  friend bool operator==(const GpuRoom&, const GpuRoom&) = default;
};

/// The current state of one node. Invariants: 0 <= free_parts <= kGpuParts for each GPU; gpu_free is their sum. A GPU
/// with MIG instances has no room for anything but instances. Copies are frequent, so a node of up to kFewGpus GPUs
/// allocates nothing.
struct NodeState {
  static constexpr int kFewGpus = 8;

  std::int32_t cpu_free = 0;
  std::int32_t memory_free = 0;
  std::int32_t gpu_free = 0;   // Parts, over all GPUs.
  std::int16_t most_free = 0;  // Parts of the GPU with the most free room.
  std::uint8_t gpus = 0;
  std::uint8_t whole = 0;  // GPUs that are entirely free.
  std::uint8_t model = 0;
  std::array<std::uint16_t, kKinds> held{};   // Requests on the node, by kind (KindOf).
  GpuSet sliceable;                           // GPUs that can be divided into MIG instances.
  GpuSet only_sliced;                         // The subset of `sliceable` that takes only MIG instances.
  GpuSet carved;                              // GPUs that are in MIG mode now, with or without instances.
  std::array<GpuRoom, kFewGpus> few_rooms{};  // Use rooms().
  std::vector<GpuRoom> many_rooms;            // Same as few_rooms, for a node with more than kFewGpus GPUs.

  /// One entry per GPU.
  std::span<GpuRoom> rooms() { return {gpus <= kFewGpus ? few_rooms.data() : many_rooms.data(), gpus}; }
  std::span<const GpuRoom> rooms() const { return {gpus <= kFewGpus ? few_rooms.data() : many_rooms.data(), gpus}; }

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// An idle node.
NodeState MakeNode(std::int32_t cpu_milli, std::int32_t memory_mib, int gpus, int model);

/// Sets which GPUs can be divided, and which of them take only instances. Requires: the node is idle.
void MakeSliceable(NodeState& node, GpuSet sliceable, GpuSet only_sliced);

/// The free parts that an idle GPU offers to requests other than MIG instances.
inline std::int16_t WhollyFree(const NodeState& node, int gpu) {
  return node.only_sliced.Contains(gpu) ? std::int16_t{0} : std::int16_t{kGpuParts};
}

inline const GpuRoom& RoomOfGpu(const NodeState& node, int gpu) { return node.rooms()[static_cast<std::size_t>(gpu)]; }

/// Returns whether MIG instances can be created on this GPU: it supports them, and it has some already or nothing runs
/// on it.
inline bool IsOpen(const NodeState& node, int gpu) {
  const GpuRoom& room = RoomOfGpu(node, gpu);
  const bool has_others = room.cut == MigCut{} && room.free_parts < WhollyFree(node, gpu);
  return !has_others && node.sliceable.Contains(gpu);
}

inline bool FitsSlice(const NodeState& node, int gpu, MigProfile profile) {
  return IsOpen(node, gpu) && MigFits(RoomOfGpu(node, gpu).cut, profile);
}

/// Returns whether one GPU can serve `shape`; ignores the rest of the node.
inline bool FitsGpu(const NodeState& node, int gpu, const Shape& shape) {
  if (shape.slice) return FitsSlice(node, gpu, *shape.slice);
  const GpuRoom& room = RoomOfGpu(node, gpu);
  return room.free_parts >= shape.parts && room.memory_free >= shape.gpu_memory_mib;
}

/// Counts the GPUs for which FitsGpu holds.
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

/// Returns whether `shape` fits at exactly this place. Requires: the place is valid for such a request.
bool FitsOn(const NodeState& node, const Shape& shape, const GpuPlace& place);

/// Requires: Fits, and `place` has shape.gpus GPUs, each with enough room; for an instance a valid start.
void Take(NodeState& node, const Shape& shape, const GpuPlace& place);
/// Undoes Take.
void Release(NodeState& node, const Shape& shape, const GpuPlace& place);

/// Subtracts the GPU room of `shape` at `place`, clamped at 0. CPUs and memory stay.
void Deduct(NodeState& node, const Shape& shape, const GpuPlace& place);

/// Removes all room on these GPUs.
void Block(NodeState& node, GpuSet gpus);

/// Copies the state of GPU `gpu` from `from`.
void CopyGpu(NodeState& node, const NodeState& from, int gpu);

/// The componentwise minimum of two states.
NodeState Less(const NodeState& a, const NodeState& b);

/// Chooses where to create an instance: on a GPU that has some already, where it costs the larger profiles least;
/// otherwise on a GPU in MIG mode; otherwise on any other. Among equals the lowest index. Requires: Fits.
GpuPlace ChooseSlice(const NodeState& node, MigProfile profile);
/// The quality of ChooseSlice's result; higher is better. Requires: Fits.
std::int32_t SliceScore(const NodeState& node, MigProfile profile);

// For MIG instances, the following functions behave like ChooseSlice.

/// The `shape.gpus` fitting GPUs with the least room; among equals the lower index.
GpuPlace TightestGpus(const NodeState& node, const Shape& shape);
/// The first `shape.gpus` fitting GPUs.
GpuPlace FirstGpus(const NodeState& node, const Shape& shape);
/// The fitting GPUs with the most room; among equals the lower index.
GpuPlace RoomiestGpus(const NodeState& node, const Shape& shape);

}  // namespace divvy::placement
