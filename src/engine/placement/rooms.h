// Upper bounds on the free room of any node in a block of nodes: a request that exceeds them need not look at the
// block. The bounds of a block are recomputed on demand after one of its nodes changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/placement/shape.h"

namespace divvy::placement {

class Rooms {
 public:
  static constexpr std::size_t kBlock = 64;  // Nodes.

  explicit Rooms(std::size_t nodes) : blocks_((nodes + kBlock - 1) / kBlock) {}

  void Changed(std::size_t node) { blocks_[node / kBlock].is_known = false; }
  std::size_t blocks() const { return blocks_.size(); }
  /// Returns false if `shape` fits on no node of the block (a range of consecutive nodes), true if it may fit on one.
  /// `nodes`: all nodes.
  bool MayFit(std::size_t block, std::span<const NodeState> nodes, const Shape& shape);

 private:
  struct Most {
    bool is_known = false;
    std::uint8_t whole = 0;  // GPUs.
    std::int16_t gpu_parts = 0;
    bool is_sliceable = false;
    std::int32_t cpu_milli = 0;
    std::int32_t memory_mib = 0;
    ModelSet models = 0;
  };
  static Most MostOf(std::span<const NodeState> nodes);

  std::vector<Most> blocks_;
};

}  // namespace divvy::placement
