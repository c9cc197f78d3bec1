#include "samples/track.h"

#include <algorithm>
#include <cmath>

namespace divvy::samples {

Fold FoldOf(const Column& column) {
  if (column.name.empty()) return FactsOf(column.metric).fold;
  return column.name == "step" || column.name == "epoch" ? Fold::kLast : Fold::kMean;
}

Track::Track(Block block) : block_(std::move(block)), weights_(block_.columns.size(), 1) {
  newest_ = block_.count == 0 ? 0 : block_.end() - 1;
}

Column* Track::ColumnOf(const Reading& reading) {
  const auto is_it = [&](const Column& column) {
    return column.name == reading.name && (!reading.name.empty() || column.metric == reading.metric);
  };
  const auto at = std::ranges::find_if(block_.columns, is_it);
  if (at != block_.columns.end()) return &*at;
  const auto own = std::ranges::count_if(block_.columns, [](const Column& column) { return !column.name.empty(); });
  if (!reading.name.empty() && static_cast<std::size_t>(own) >= kMostOwnNames) return nullptr;
  weights_.push_back(0);
  return &block_.columns.emplace_back(
      Column{reading.metric, reading.name, std::vector<Point>(block_.count, NoPoint())});
}

void Track::Add(Second at, const std::vector<Reading>& readings) {
  if (at <= 0) return;
  if (block_.count == 0) block_.begin = at;
  at = std::max(at, block_.begin);
  while (at >= block_.begin + block_.step * static_cast<Second>(kMostPoints)) Halve();
  const std::size_t last = block_.count;
  const auto index = std::max(static_cast<std::size_t>((at - block_.begin) / block_.step), last == 0 ? 0 : last - 1);
  block_.count = std::max(last, index + 1);
  if (block_.count != last) {
    for (Column& column : block_.columns) column.points.resize(block_.count, NoPoint());
    std::ranges::fill(weights_, 0);
  }
  newest_ = std::max(newest_, at);
  is_changed_ = true;
  double left_out = 0;
  for (const Reading& reading : readings) {
    if (std::isnan(reading.value)) continue;
    // Counts the names that are not stored: those that the reader of the job's output has dropped, and those for which
    // this track has no room.
    if (reading.name.empty() && reading.metric == Metric::kOwnNamesLeftOut) left_out += reading.value;
    else if (!AddTo(index, reading)) ++left_out;
    else if (!reading.name.empty()) own_[reading.name] = reading.value;
  }
  if (left_out > 0) AddTo(index, {Metric::kOwnNamesLeftOut, left_out});
}

bool Track::AddTo(std::size_t index, const Reading& reading) {
  Column* const column = ColumnOf(reading);
  if (column == nullptr) return false;
  double& weight = weights_[static_cast<std::size_t>(column - block_.columns.data())];
  Point& point = column->points[index];
  point = FoldPoints(FoldOf(*column), point, weight, PointOf(reading.value), 1);
  weight += 1;
  return true;
}

void Track::Halve() {
  const std::size_t half = (block_.count + 1) / 2;
  for (std::size_t i = 0; i < block_.columns.size(); ++i) {
    std::vector<Point>& points = block_.columns[i].points;
    const Fold fold = FoldOf(block_.columns[i]);
    for (std::size_t k = 0; k < half; ++k) {
      const Point second = 2 * k + 1 < block_.count ? points[2 * k + 1] : NoPoint();
      points[k] = FoldPoints(fold, points[2 * k], 1, second, 1);
    }
    points.resize(half);
  }
  block_.count = half;
  block_.step *= 2;
}

}  // namespace divvy::samples
