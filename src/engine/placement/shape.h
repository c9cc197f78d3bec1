// What placement looks at: how much of a node is free, and the shape of a request. Plain values, small enough that a
// hundred thousand nodes fit in a cache and a score costs nanoseconds.
//
// Units: a GPU has kGpuMilli thousandths, CPUs are thousandths of a core, memory is MiB.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <limits>

namespace divvy::placement {

inline constexpr int kMaxGpus = 16;
inline constexpr int kGpuMilli = 1000;
/// GPU models that one fleet may mix: they are kept as bits.
inline constexpr int kMaxModels = 64;

/// Bit g: GPU g of the node.
using GpuMask = std::uint16_t;
/// Bit m: GPU model m is allowed.
using ModelSet = std::uint64_t;
inline constexpr ModelSet kAnyModel = std::numeric_limits<ModelSet>::max();

using NodeIndex = std::uint32_t;

/// What a request asks of one node. `gpus` = 0: no GPU; 1 with milli < kGpuMilli: a share; else that many GPUs with
/// `milli` of each.
struct Shape {
  std::int32_t cpu_milli = 0;
  std::int32_t memory_mib = 0;
  std::int16_t gpus = 0;
  std::int16_t milli = 0;  // Of each GPU.
  ModelSet models = kAnyModel;

  bool is_share() const { return gpus == 1 && milli < kGpuMilli; }
  std::int32_t gpu_milli() const { return gpus * milli; }
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// Requests that published policies treat as of one kind: none, share, 1, 2, 3-4, 5 or more GPUs.
inline constexpr int kKinds = 6;
int KindOf(const Shape& shape);

/// One node as it is now. Invariants: 0 <= free_milli[g] <= kGpuMilli for g < gpus; gpu_free is their sum.
struct NodeState {
  std::int32_t cpu_free = 0;
  std::int32_t memory_free = 0;
  std::int32_t gpu_free = 0;   // Milli, of all GPUs.
  std::int16_t most_free = 0;  // Milli of the GPU with the most room.
  std::uint8_t gpus = 0;
  std::uint8_t whole = 0;  // GPUs that are wholly free.
  std::uint8_t model = 0;
  std::array<std::int16_t, kMaxGpus> free_milli{};
  std::array<std::uint16_t, kKinds> held{};  // Requests on the node, by kind.

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// An idle node.
NodeState MakeNode(std::int32_t cpu_milli, std::int32_t memory_mib, int gpus, int model);

/// GPUs with at least `milli` free.
int CountFitting(const NodeState& node, int milli);

inline bool Fits(const NodeState& node, const Shape& shape) {
  if (shape.cpu_milli > node.cpu_free || shape.memory_mib > node.memory_free) return false;
  if (shape.gpus == 0) return true;
  if (((shape.models >> node.model) & 1) == 0 || shape.milli > node.most_free) return false;
  if (shape.gpus == 1) return true;
  return (shape.milli == kGpuMilli ? node.whole : CountFitting(node, shape.milli)) >= shape.gpus;
}

/// Requires: Fits, and `gpus` has shape.gpus bits, each of a GPU with that much room.
void Take(NodeState& node, const Shape& shape, GpuMask gpus);
/// Undoes Take.
void Release(NodeState& node, const Shape& shape, GpuMask gpus);

/// Nothing is left on these GPUs, whatever was.
void Block(NodeState& node, GpuMask gpus);

/// The `shape.gpus` fitting GPUs with the least room; of equals the lower index.
GpuMask TightestGpus(const NodeState& node, const Shape& shape);
/// The first `shape.gpus` fitting GPUs.
GpuMask FirstGpus(const NodeState& node, const Shape& shape);
/// Those with the most room; of equals the lower index.
GpuMask RoomiestGpus(const NodeState& node, const Shape& shape);

}  // namespace divvy::placement
