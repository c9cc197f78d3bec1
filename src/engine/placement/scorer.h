// A placement policy: how good a node is for a request. Pure: the same node and shape always get the same score, so the
// fleet can cache scores until the node changes.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/placement/score_index.h"
#include "engine/placement/shape.h"

namespace divvy::placement {

class Scorer {
 public:
  virtual ~Scorer() = default;

  /// Returns a value about the node that Rate and Choose need. It is computed once after each change of the node.
  virtual std::int64_t Worth(const NodeState&) const { return 0; }
  /// Returns how good the node is for the request: 0 or more, higher is better; kNoRoom if the request does not fit.
  /// `worth`: Worth(node).
  virtual Score Rate(const NodeState& node, std::int64_t worth, const Shape& shape) const = 0;
  /// Chooses GPUs for the request on this node. Requires: the request fits (Fits).
  virtual GpuPlace Choose(const NodeState& node, std::int64_t worth, const Shape& shape) const;
};

/// Returns how good the node is for the request: the scorer's rating, or SliceScore for a MIG instance, which scorers
/// do not know.
Score RateNode(const Scorer& scorer, const NodeState& node, std::int64_t worth, const Shape& shape);
/// Chooses GPUs for the request on this node: by the scorer, or by ChooseSlice for a MIG instance. Requires: the
/// request fits (Fits).
GpuPlace ChooseOn(const Scorer& scorer, const NodeState& node, std::int64_t worth, const Shape& shape);

/// Makes a policy that looks only at the node and the request, for comparison or for users who prefer it:
///
///   pack, spread, sequential   fullest node first; emptiest first; the first that fits (all GPUs are equal)
///   best-fit, dot-prod, packing, clustering   as published with FGD (Weng et al., USENIX ATC 2023)
///
/// Null for any other name.
std::unique_ptr<Scorer> MakeSimpleScorer(std::string_view name);

/// Scores every node with room the same: the fleet's order decides, or a draw (Fleet::FindAnywhere).
class AnyRoom : public Scorer {
 public:
  Score Rate(const NodeState& node, std::int64_t, const Shape& shape) const override {
    return Fits(node, shape) ? 0 : kNoRoom;
  }
  GpuPlace Choose(const NodeState& node, std::int64_t, const Shape& shape) const override {
    return FirstGpus(node, shape);
  }
};

}  // namespace divvy::placement
