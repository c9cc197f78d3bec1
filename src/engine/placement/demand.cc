#include "engine/placement/demand.h"

#include <algorithm>
#include <cmath>

namespace divvy::placement {
namespace {

// The sum of the integer weights of a running demand: fine enough for one submission in ten thousand, and small enough
// that weight x parts x GPUs stays far below 64 bits.
constexpr double kScale = 1 << 20;
// Above this, the weights are scaled down again; doubles could hold far more.
constexpr double kLargestUnit = 1e12;

Shape WithoutMemory(Shape shape) {
  shape.memory_mib = 0;
  return shape;
}

}  // namespace

Demand CountShapes(const std::vector<Shape>& requests) {
  std::map<Shape, std::int64_t> counts;
  for (const Shape& shape : requests) ++counts[WithoutMemory(shape)];
  Demand demand;
  for (const auto& [shape, count] : counts) demand.push_back({shape, count});
  return demand;
}

Demand Typical(const Demand& demand, int percent) {
  Demand sorted = demand;
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.weight > b.weight; });
  std::int64_t total = 0;
  for (const auto& one : sorted) total += one.weight;
  std::int64_t covered = 0;
  std::size_t count = 0;
  while (count < sorted.size() && covered * 100 < total * percent) covered += sorted[count++].weight;
  sorted.resize(count);
  return sorted;
}

void RunningDemand::Add(const Shape& shape) {
  ++seen_;
  // Instead of reducing all earlier weights, later submissions weigh more, so only one number changes.
  unit_ *= std::exp2(1 / half_life_);
  weights_[WithoutMemory(shape)] += unit_;
  if (unit_ < kLargestUnit) return;
  for (auto& [known, weight] : weights_) weight /= unit_;
  unit_ = 1;
}

double RunningDemand::Requests() const {
  double total = 0;
  for (const auto& [shape, weight] : weights_) total += weight;
  return total / unit_;
}

Demand RunningDemand::Snapshot() const {
  const double total = Requests() * unit_;
  Demand demand;
  for (const auto& [shape, weight] : weights_) {
    const auto scaled = static_cast<std::int64_t>(std::llround(weight / total * kScale));
    if (scaled > 0) demand.push_back({shape, scaled});
  }
  return demand;
}

}  // namespace divvy::placement
