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

/// Returns true if two places have a GPU in common or, for MIG instances, slices of one.
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

/// Returns the request for one MIG instance of `profile`, on any GPU that supports MIG. An instance counts as its share
/// of the GPU's memory, so all instances of a GPU together never exceed one GPU.
Shape SliceShape(MigProfile profile);

/// Request kinds that published policies distinguish: none, share, 1, 2, 3-4, 5 or more GPUs.
inline constexpr int kKinds = 6;
int KindOf(const Shape& shape);

/// The GPU memory, in MiB, that is assumed for a node that does not report it.
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

  /// The free room of each GPU of the node.
  std::span<GpuRoom> rooms() { return {gpus <= kFewGpus ? few_rooms.data() : many_rooms.data(), gpus}; }
  std::span<const GpuRoom> rooms() const { return {gpus <= kFewGpus ? few_rooms.data() : many_rooms.data(), gpus}; }

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// Returns the state of an idle node with these resources. `model`: the number of its GPU model.
NodeState MakeNode(std::int32_t cpu_milli, std::int32_t memory_mib, int gpus, int model);

/// Sets which GPUs of the node can be divided into MIG instances (`sliceable`), and which of them take nothing else
/// (`only_sliced`). Requires: the node is idle.
void MakeSliceable(NodeState& node, GpuSet sliceable, GpuSet only_sliced);

/// Returns how many ten-thousandths of the GPU are free for requests other than MIG instances when nothing runs on it.
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

/// Returns true if this GPU has room for what `shape` needs on one GPU; ignores CPUs and memory of the node.
inline bool FitsGpu(const NodeState& node, int gpu, const Shape& shape) {
  if (shape.slice) return FitsSlice(node, gpu, *shape.slice);
  const GpuRoom& room = RoomOfGpu(node, gpu);
  return room.free_parts >= shape.parts && room.memory_free >= shape.gpu_memory_mib;
}

/// Returns how many GPUs of the node have room for what `shape` needs on one GPU (FitsGpu).
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

/// Returns true if the request fits on exactly these GPUs of the node. Requires: `place` has the form that such a
/// request needs.
bool FitsOn(const NodeState& node, const Shape& shape, const GpuPlace& place);

/// Subtracts what the request needs from the node's free room. Requires: the request fits, and `place` has shape.gpus
/// GPUs with enough room each, or a valid start for a MIG instance.
void Take(NodeState& node, const Shape& shape, const GpuPlace& place);
/// Adds what the request needs to the node's free room again: the reverse of Take.
void Release(NodeState& node, const Shape& shape, const GpuPlace& place);

/// Subtracts the GPU room that the request needs on these GPUs, but not below 0. Free CPUs and memory stay the same.
void Deduct(NodeState& node, const Shape& shape, const GpuPlace& place);

/// Sets the free room of these GPUs to 0.
void Block(NodeState& node, GpuSet gpus);

/// Copies the state of GPU `gpu` from `from`.
void CopyGpu(NodeState& node, const NodeState& from, int gpu);

/// Returns the state with the smaller free amount of each resource of two states of a node.
NodeState Less(const NodeState& a, const NodeState& b);

/// Chooses where to create a MIG instance: on a GPU that has some already, where it takes the least room from larger
/// profiles; otherwise on a GPU in MIG mode; otherwise on any other GPU. Of equally good GPUs, the one with the lowest
/// index. Requires: the instance fits (Fits).
GpuPlace ChooseSlice(const NodeState& node, MigProfile profile);
/// Returns how good the place is that ChooseSlice chooses; higher is better. Requires: the instance fits (Fits).
std::int32_t SliceScore(const NodeState& node, MigProfile profile);

// For MIG instances, the following functions behave like ChooseSlice.

/// Returns the GPUs for a request: of those where it fits, the ones with the least free room; of equal ones, those with
/// lower indices.
GpuPlace TightestGpus(const NodeState& node, const Shape& shape);
/// Returns the GPUs for a request: of those where it fits, the ones with the lowest indices.
GpuPlace FirstGpus(const NodeState& node, const Shape& shape);
/// Returns the GPUs for a request: of those where it fits, the ones with the most free room; of equal ones, those with
/// lower indices.
GpuPlace RoomiestGpus(const NodeState& node, const Shape& shape);

}  // namespace divvy::placement
