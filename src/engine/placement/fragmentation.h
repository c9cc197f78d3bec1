// How much of a node's free GPU the typical requests could not use, and what it is worth to keep it usable.
//
// For a typical request p and a node with free GPU R: if p wants no GPU, its models exclude the node's, the node lacks
// p's CPUs or has fewer than p's count of GPUs with enough room, all of R is a fragment; else what lies on GPUs with
// less room than p asks of one. F(node) is the mean over the typical requests by weight.
//
// The same thing read from the other side is cheaper: F = R - U, where U is what typical requests could use. U is a sum
// over GPUs of `room x weight of the single-GPU requests that fit there`, and one term for the requests of several
// GPUs; so a table by (model, CPU level, size class) gives it without looking at a single typical request. All of it is
// integers: Useful() is U times the total weight, exactly.
//
// Source: fragmentation gradient descent (Weng et al., USENIX ATC 2023).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/placement/demand.h"
#include "engine/placement/size_steps.h"

namespace divvy::placement {

class Fragmentation {
 public:
  /// `models`: how many GPU models the fleet has. `typical` may be empty: then nothing is useful.
  Fragmentation(const Demand& typical, int models);

  /// Sum of the typical weights, CPU-only requests included; at least 1.
  std::int64_t total_weight() const { return total_; }
  /// U x total_weight.
  std::int64_t Useful(const NodeState& node) const {
    return UsefulWith(node, Row(node.model, node.cpu_free), node.whole);
  }
  /// F x total_weight.
  std::int64_t Fragment(const NodeState& node) const { return node.gpu_free * total_ - Useful(node); }

  /// Where the weights for a node of this model with so many CPUs free begin. For ForGpu and ForWhole.
  std::size_t Row(int model, std::int32_t cpu_free) const;
  /// What one GPU with so much room adds to Useful in that row.
  std::int64_t ForGpu(std::size_t row, int free_parts) const {
    return std::int64_t{weights_[row * width_ + class_of_[steps_.Of(free_parts)]]} * free_parts;
  }
  /// What so many whole free GPUs add to Useful because requests of several could use them together.
  std::int64_t ForWhole(std::size_t row, int whole) const {
    const std::size_t most = std::min(static_cast<std::size_t>(whole), most_asked_);
    return several_[row * (most_asked_ + 1) + most] * whole * kGpuParts;
  }
  /// Sum of ForGpu over the node's GPUs, plus ForWhole.
  std::int64_t UsefulWith(const NodeState& node, std::size_t row, int whole) const;

 private:
  std::int64_t total_ = 1;
  std::size_t width_ = 1;  // Size classes.
  std::size_t levels_ = 1;
  std::vector<std::int32_t> cpu_steps_;  // CPU that typical GPU requests ask, ascending, each once.
  SizeSteps steps_;
  std::vector<std::uint16_t> class_of_;  // By steps of free room: how many typical sizes fit.
  std::vector<std::int32_t> weights_;    // By row and size class: weight of the single-GPU requests that fit.
  std::size_t most_asked_ = 0;           // GPUs of the typical request with most of them.
  std::vector<std::int64_t>
      several_;  // Weight of the requests for several GPUs, by row and by whole GPUs up to most_asked_.
};

}  // namespace divvy::placement
