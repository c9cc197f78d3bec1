#include "samples/history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace divvy::samples {
namespace {

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
/// A longer gap ends a block, so that it does not fill up with empty points.
constexpr Second kMostEmptyPoints = 8;

std::size_t SlotOf(Second at) { return static_cast<std::size_t>(at % kRingSeconds); }

}  // namespace

std::size_t History::ColumnOf(Metric metric) {
  const auto at = std::ranges::find(columns_, metric);
  const auto column = static_cast<std::size_t>(at - columns_.begin());
  if (at == columns_.end()) {
    columns_.push_back(metric);
    ring_.emplace_back(kRingSeconds, kNothing);
  }
  return column;
}

void History::Add(Second at, const std::vector<Reading>& readings) {
  if (at <= 0 || at <= newest_ - kRingSeconds) return;
  const bool is_new = at > newest_;
  if (is_new) {
    if (newest_ == 0) oldest_ = at;
    // The skipped slots hold values from ten minutes ago.
    const Second passed = std::min(at - newest_, kRingSeconds);
    for (Second i = 0; newest_ != 0 && i < passed; ++i) {
      for (auto& values : ring_) values[SlotOf(at - i)] = kNothing;
    }
    newest_ = at;
    oldest_ = std::max(oldest_, newest_ - kRingSeconds + 1);
  }
  oldest_ = std::min(oldest_, std::max(at, newest_ - kRingSeconds + 1));
  for (const Reading& reading : readings) {
    if (reading.name.empty()) ring_[ColumnOf(reading.metric)][SlotOf(at)] = static_cast<float>(reading.value);
  }
  if (!is_new) return;
  newest_readings_.clear();
  for (const Reading& reading : readings) {
    if (reading.name.empty()) newest_readings_.push_back(reading);
  }
  if (!has_levels_) return;
  for (std::size_t level = 0; level < kLevels.size(); ++level) AddToLevel(level, at, readings);
}

std::optional<double> History::NewestOf(Metric metric) const {
  const auto at = std::ranges::find(columns_, metric);
  if (newest_ == 0 || at == columns_.end()) return std::nullopt;
  const float value = ring_[static_cast<std::size_t>(at - columns_.begin())][SlotOf(newest_)];
  return std::isnan(value) ? std::nullopt : std::optional(static_cast<double>(value));
}

std::optional<double> History::MeanOf(Metric metric, Second seconds) const {
  const auto column = std::ranges::find(columns_, metric);
  if (column == columns_.end()) return std::nullopt;
  const std::vector<float>& values = ring_[static_cast<std::size_t>(column - columns_.begin())];
  double sum = 0;
  int count = 0;
  for (Second at = std::max(oldest_, newest_ - seconds + 1); at <= newest_; ++at) {
    const float value = values[SlotOf(at)];
    if (std::isnan(value)) continue;
    sum += static_cast<double>(value);
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

Block History::Seconds(Second since, Second until) const {
  Block block;
  block.begin = std::max(since, oldest_);
  const Second end = std::min(until, newest_ + 1);
  if (newest_ == 0 || end <= block.begin) return block;
  block.count = static_cast<std::size_t>(end - block.begin);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = block.columns.emplace_back();
    column.metric = columns_[i];
    column.points.reserve(block.count);
    for (Second at = block.begin; at < end; ++at) {
      const float value = ring_[i][SlotOf(at)];
      column.points.push_back({value, value, value});
    }
  }
  return block;
}

void History::AddToLevel(std::size_t level, Second at, const std::vector<Reading>& readings) {
  Gathering& gathering = levels_[level];
  Bucket& bucket = gathering.bucket;
  const Second step = kLevels[level].step;
  const Second begin = at / step * step;
  if (bucket.begin != begin) {
    if (bucket.begin != 0) CloseBucket(level);
    Block& block = gathering.block;
    const Second empty = block.count == 0 ? 0 : (begin - block.end()) / step;
    if (empty > kMostEmptyPoints) Seal(level);
    for (Second i = 0; gathering.block.count > 0 && i < empty; ++i) {
      Append(gathering.block, columns_, {});
      if (gathering.block.count == kLevels[level].block_points) Seal(level);
    }
    bucket.begin = begin;
  }
  for (const Reading& reading : readings) {
    if (!reading.name.empty() || std::isnan(reading.value)) continue;
    const std::size_t column = ColumnOf(reading.metric);
    if (bucket.points.size() <= column) {
      bucket.points.resize(column + 1, NoPoint());
      bucket.weights.resize(column + 1, 0);
    }
    Point& point = bucket.points[column];
    point = FoldPoints(FactsOf(reading.metric).fold, point, bucket.weights[column], PointOf(reading.value), 1);
    bucket.weights[column] += 1;
  }
  gathering.is_changed = true;
}

void History::Append(Block& block, const std::vector<Metric>& metrics, const std::vector<Point>& points) {
  for (std::size_t i = block.columns.size(); i < metrics.size(); ++i)
    block.columns.push_back({metrics[i], "", std::vector<Point>(block.count, NoPoint())});
  for (std::size_t i = 0; i < block.columns.size(); ++i)
    block.columns[i].points.push_back(i < points.size() ? points[i] : NoPoint());
  ++block.count;
}

void History::CloseBucket(std::size_t level) {
  Gathering& gathering = levels_[level];
  Block& block = gathering.block;
  if (block.count == 0) block.begin = gathering.bucket.begin;
  block.step = kLevels[level].step;
  Append(block, columns_, gathering.bucket.points);
  gathering.bucket = Bucket();
  gathering.is_changed = true;
  if (block.count == kLevels[level].block_points) Seal(level);
}

void History::Seal(std::size_t level) {
  full_.push_back(std::exchange(levels_[level].block, Block()));
  levels_[level].is_changed = false;
}

Block History::Open(std::size_t level) const {
  const Gathering& gathering = levels_[level];
  Block block = gathering.block;
  block.step = kLevels[level].step;
  if (gathering.bucket.begin == 0) return block;
  if (block.count == 0) block.begin = gathering.bucket.begin;
  Append(block, columns_, gathering.bucket.points);
  return block;
}

std::vector<Block> History::TakeFull() { return std::exchange(full_, {}); }

std::optional<Block> History::TakeChanged(std::size_t level) {
  if (!std::exchange(levels_[level].is_changed, false)) return std::nullopt;
  return Open(level);
}

}  // namespace divvy::samples
