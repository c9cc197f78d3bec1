// A placement policy: how good a node is for a request. Pure; the same node and shape always get the same score, which
// is what lets the fleet keep scores until the node changes.
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

  /// What Rate wants to know of a node besides its state; computed once per change of the node.
  virtual std::int64_t Worth(const NodeState&) const { return 0; }
  /// 0 or more, higher is better; kNoRoom where it does not fit. `worth` is Worth(node).
  virtual Score Rate(const NodeState& node, std::int64_t worth, const Shape& shape) const = 0;
  /// Which GPUs of the chosen node. Requires: Fits(node, shape).
  virtual GpuPlace Choose(const NodeState& node, std::int64_t worth, const Shape& shape) const;
};

/// What a scorer says of a node; of MIG instances, which scorers do not know, SliceScore.
Score RateNode(const Scorer& scorer, const NodeState& node, std::int64_t worth, const Shape& shape);
/// Likewise which GPUs. Requires: Fits.
GpuPlace ChooseOn(const Scorer& scorer, const NodeState& node, std::int64_t worth, const Shape& shape);

/// The policies that look at the node and the request alone, for comparison and for those who want them:
///
///   pack, spread, sequential   fullest node first; emptiest first; the first that fits (GPUs alike)
///   best-fit, dot-prod, packing, clustering   as published beside FGD (Weng et al., USENIX ATC 2023)
///
/// Null for any other name.
std::unique_ptr<Scorer> MakeSimpleScorer(std::string_view name);

/// One score for every node with room: the fleet's order decides, or a draw (Fleet::PlaceAnywhere).
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
