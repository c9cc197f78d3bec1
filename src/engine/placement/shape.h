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

#include "engine/placement/mig.h"

namespace divvy::placement {

inline constexpr int kMaxGpus = 16;
inline constexpr int kGpuParts = 10'000;
/// GPU models that one fleet may mix: they are kept as bits.
inline constexpr int kMaxModels = 64;

/// A place on a node. Bit g: GPU g. Of a MIG instance, which lies on one GPU, also bit kMaxGpus + s: memory slice s.
using GpuMask = std::uint32_t;
inline constexpr GpuMask kGpuBits = (GpuMask{1} << kMaxGpus) - 1;
inline GpuMask GpusOf(GpuMask place) { return place & kGpuBits; }
inline std::uint8_t SlicesOf(GpuMask place) { return static_cast<std::uint8_t>(place >> kMaxGpus); }
/// Whether two places have a GPU, or slices of one, in common.
inline bool Overlap(GpuMask a, GpuMask b) {
  const bool is_sliced = SlicesOf(a) != 0 && SlicesOf(b) != 0;
  return GpusOf(a & b) != 0 && (!is_sliced || SlicesOf(a & b) != 0);
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

/// One node as it is now. Invariants: 0 <= free_parts[g] <= kGpuParts for g < gpus; gpu_free is their sum; of a GPU
/// with instances on it nothing is free for others than instances.
struct NodeState {
  std::int32_t cpu_free = 0;
  std::int32_t memory_free = 0;
  std::int32_t gpu_free = 0;   // Parts, of all GPUs.
  std::int16_t most_free = 0;  // Parts of the GPU with the most room.
  std::uint8_t gpus = 0;
  std::uint8_t whole = 0;  // GPUs that are wholly free.
  std::uint8_t model = 0;
  std::uint16_t sliceable = 0;    // GPUs that can be cut into MIG instances.
  std::uint16_t only_sliced = 0;  // Those of them that take nothing else.
  std::uint16_t carved = 0;       // Those that are given over to instances now, whether there are any or not.
  std::array<std::int16_t, kMaxGpus> free_parts{};
  std::array<MigCut, kMaxGpus> cuts{};
  std::array<std::int32_t, kMaxGpus> gpu_memory_free{};
  std::array<std::uint16_t, kKinds> held{};  // Requests on the node, by kind.

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// An idle node.
NodeState MakeNode(std::int32_t cpu_milli, std::int32_t memory_mib, int gpus, int model);

/// Of an idle node: which of its GPUs can be cut, and which of these take nothing else.
void MakeSliceable(NodeState& node, GpuMask sliceable, GpuMask only_sliced);

/// What a GPU on which nothing runs has for others than instances.
inline std::int16_t WhollyFree(const NodeState& node, std::size_t gpu) {
  return ((node.only_sliced >> gpu) & 1) != 0 ? std::int16_t{0} : std::int16_t{kGpuParts};
}

/// Instances may be cut out of this GPU: there are some already, or nothing else runs on it.
inline bool IsOpen(const NodeState& node, std::size_t gpu) {
  const bool has_others = node.cuts[gpu] == MigCut{} && node.free_parts[gpu] < WhollyFree(node, gpu);
  return !has_others && ((node.sliceable >> gpu) & 1) != 0;
}

inline bool FitsSlice(const NodeState& node, std::size_t gpu, MigProfile profile) {
  return IsOpen(node, gpu) && MigFits(node.cuts[gpu], profile);
}

/// What one GPU can give of `shape`; the rest of the node is not looked at.
inline bool FitsGpu(const NodeState& node, int gpu, const Shape& shape) {
  const auto at = static_cast<std::size_t>(gpu);
  if (shape.slice) return FitsSlice(node, at, *shape.slice);
  return node.free_parts[at] >= shape.parts && node.gpu_memory_free[at] >= shape.gpu_memory_mib;
}

/// GPUs for which FitsGpu holds.
int CountFitting(const NodeState& node, const Shape& shape);

inline bool Fits(const NodeState& node, const Shape& shape) {
  if (shape.cpu_milli > node.cpu_free || shape.memory_mib > node.memory_free) return false;
  if (((shape.models >> node.model) & 1) == 0) return false;
  if (shape.gpus == 0) return true;
  if (shape.slice) return node.sliceable != 0 && CountFitting(node, shape) > 0;
  if (shape.parts > node.most_free) return false;
  if (shape.gpu_memory_mib > 0) return CountFitting(node, shape) >= shape.gpus;
  if (shape.gpus == 1) return true;
  return (shape.parts == kGpuParts ? node.whole : CountFitting(node, shape)) >= shape.gpus;
}

/// It fits on just these GPUs, of an instance just there. Requires: the place is one that such a request can have.
bool FitsOn(const NodeState& node, const Shape& shape, GpuMask gpus);

/// Requires: Fits, and `gpus` has shape.gpus bits, each of a GPU with that much room; of an instance a legal place.
void Take(NodeState& node, const Shape& shape, GpuMask gpus);
/// Undoes Take.
void Release(NodeState& node, const Shape& shape, GpuMask gpus);

/// As much less as there is: never below nothing. CPUs and memory stay.
void Deduct(NodeState& node, const Shape& shape, GpuMask gpus);

/// Nothing is left on these GPUs, whatever was.
void Block(NodeState& node, GpuMask gpus);

/// What GPU `gpu` has left becomes what it has in `from`.
void CopyGpu(NodeState& node, const NodeState& from, int gpu);

/// No more than both have.
NodeState Less(const NodeState& a, const NodeState& b);

/// Where to cut an instance: of GPUs that have some already where it costs the larger profiles least, else of those
/// that are given over to instances, else of the others; of equals the lower index. Requires: Fits.
GpuMask ChooseSlice(const NodeState& node, MigProfile profile);
/// How good that is; higher is better. Requires: Fits.
std::int32_t SliceScore(const NodeState& node, MigProfile profile);

// The following choose for an instance as ChooseSlice does.

/// The `shape.gpus` fitting GPUs with the least room; of equals the lower index.
GpuMask TightestGpus(const NodeState& node, const Shape& shape);
/// The first `shape.gpus` fitting GPUs.
GpuMask FirstGpus(const NodeState& node, const Shape& shape);
/// Those with the most room; of equals the lower index.
GpuMask RoomiestGpus(const NodeState& node, const Shape& shape);

}  // namespace divvy::placement
