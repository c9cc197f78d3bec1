// How much of a node's free GPU room typical requests cannot use, and what keeping it usable is worth.
//
// For a typical request p and a node with free GPU room R: if p wants no GPU, its models exclude the node's, or the
// node lacks p's CPUs or has fewer than p's count of GPUs with enough room, then all of R is a fragment. Otherwise the
// fragment is the free room on GPUs that have less room than p needs of one GPU. F(node) is the weighted mean over the
// typical requests.
//
// The complement is cheaper to compute: F = R - U, where U is the room that typical requests can use. U is a sum over
// GPUs of `room x weight of the single-GPU requests that fit there`, plus one term for requests of several GPUs. So a
// table by (model, CPU level, size class) gives U without visiting the typical requests. All values are integers:
// Useful() is exactly U times the total weight.
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
  /// Computes how much of a node's free GPU room typical requests can use. `typical`: those requests; if empty, no room
  /// counts as useful. `models`: the number of GPU models of all nodes.
  Fragmentation(const Demand& typical, int models);

  /// Returns the sum of the weights of the typical requests, those without GPUs included; at least 1.
  std::int64_t total_weight() const { return total_; }
  /// Returns the GPU room of the node that typical requests can use, multiplied by total_weight().
  std::int64_t Useful(const NodeState& node) const {
    return UsefulWith(node, Row(node.model, node.cpu_free), node.whole);
  }
  /// Returns the GPU room of the node that typical requests cannot use, multiplied by total_weight().
  std::int64_t Fragment(const NodeState& node) const { return node.gpu_free * total_ - Useful(node); }

  /// Returns the row of the table for a node of this model with this many thousandths of CPUs free, as an argument for
  /// ForGpu and ForWhole.
  std::size_t Row(int model, std::int32_t cpu_free) const;
  /// Returns how much one GPU with `free_parts` ten-thousandths free adds to Useful. `row`: of Row.
  std::int64_t ForGpu(std::size_t row, int free_parts) const {
    return std::int64_t{weights_[row * width_ + class_of_[steps_.Of(free_parts)]]} * free_parts;
  }
  /// Returns how much `whole` completely free GPUs of a node add to Useful, because requests of several GPUs could use
  /// them together.
  std::int64_t ForWhole(std::size_t row, int whole) const {
    const std::size_t most = std::min(static_cast<std::size_t>(whole), most_asked_);
    return several_[row * (most_asked_ + 1) + most] * whole * kGpuParts;
  }
  /// Returns the sum of ForGpu over the node's GPUs, plus ForWhole.
  std::int64_t UsefulWith(const NodeState& node, std::size_t row, int whole) const;

 private:
  std::int64_t total_ = 1;
  std::size_t width_ = 1;  // The number of size classes.
  std::size_t levels_ = 1;
  std::vector<std::int32_t> cpu_steps_;  // CPU amounts of typical GPU requests, ascending, without duplicates.
  SizeSteps steps_;
  std::vector<std::uint16_t> class_of_;  // Indexed by steps of free room: how many typical sizes fit.
  std::vector<std::int32_t> weights_;    // Indexed by row and size class: weight of the single-GPU requests that fit.
  std::size_t most_asked_ = 0;           // The largest GPU count of a typical request.
  std::vector<std::int64_t>
      several_;  // Weight of multi-GPU requests, by row and by wholly free GPUs up to most_asked_.
};

}  // namespace divvy::placement
