// The usual requests: shapes with weights. Placement keeps free room usable for this demand.
//
// It has two sources: a whole trace that is known beforehand (an oracle, as in published experiments), or the
// submissions so far with older ones weighted less (a live scheduler).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/placement/shape.h"

namespace divvy::placement {

/// Weights are integers, so sums over them are exact and independent of the order.
struct WeightedShape {
  Shape shape;  // memory_mib is 0: memory is ignored in the typical demand.
  std::int64_t weight = 0;
};

/// Ordered by shape; each shape once; weights > 0.
using Demand = std::vector<WeightedShape>;

/// Counts how many of the requests have the same CPUs, GPUs, GPU fraction and models.
Demand CountShapes(const std::vector<Shape>& requests);

/// Returns the most frequent shapes that together make at least `percent` of the weight. Equally frequent shapes are
/// ordered smaller first. The result is ordered by weight, descending.
Demand Typical(const Demand& demand, int percent);

/// Demand of the submissions so far. A submission's weight halves after `half_life` more submissions.
class RunningDemand {
 public:
  explicit RunningDemand(double half_life) : half_life_(half_life) {}

  void Add(const Shape& shape);
  std::int64_t seen() const { return seen_; }
  /// Returns the number of submissions counted, where older ones count less.
  double Requests() const;
  /// Returns the demand with weights scaled to integers whose sum is about 2^20. Shapes whose weight would be 0 are
  /// left out.
  Demand Snapshot() const;

 private:
  double half_life_;
  double unit_ = 1;
  std::int64_t seen_ = 0;
  std::map<Shape, double> weights_;
};

}  // namespace divvy::placement
