// What is usually asked for: shapes with weights. Placement keeps room in the form that this demand can use.
//
// Two sources give the same thing: a whole trace that is known beforehand (an oracle, as published experiments have
// it), and the submissions so far, of which old ones count less (what a live scheduler has).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/placement/shape.h"

namespace divvy::placement {

/// Weights are integers, so that sums over them are exact and in any order the same.
struct WeightedShape {
  Shape shape;  // memory_mib is 0: memory takes no part in what is typical.
  std::int64_t weight = 0;
};

/// Ordered by shape; each shape once; weights > 0.
using Demand = std::vector<WeightedShape>;

/// Counts requests by CPU, GPUs, share and models.
Demand CountShapes(const std::vector<Shape>& requests);

/// The most popular shapes that together make at least `percent` of the weight; of equally popular ones the smaller
/// shape first. Ordered by weight, descending.
Demand Typical(const Demand& demand, int percent);

/// Submissions so far, each counting half as much after `half_life` more of them.
class RunningDemand {
 public:
  explicit RunningDemand(double half_life) : half_life_(half_life) {}

  void Add(const Shape& shape);
  std::int64_t seen() const { return seen_; }
  /// How many submissions the weights stand for, old ones counted for less.
  double Requests() const;
  /// Weights scaled to integers that sum to about 2^20; what would round to nothing is left out.
  Demand Snapshot() const;

 private:
  double half_life_;
  double unit_ = 1;
  std::int64_t seen_ = 0;
  std::map<Shape, double> weights_;
};

}  // namespace divvy::placement
