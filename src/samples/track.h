// The history of a whole job in a bounded number of points. When the points run out, pairs are merged. A job of an hour
// therefore has points of some ten seconds, one of a week about a quarter of an hour. The whole track is stored with
// the job.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "samples/block.h"

namespace divvy::samples {

class Track {
 public:
  static constexpr std::size_t kMostPoints = 512;
  static constexpr std::size_t kMostOwnNames = 32;

  Track() = default;
  /// Continues a track that was stored as this block.
  explicit Track(Block block);

  /// Adds the readings of one second; call this in order of time. A second before the last point is merged into that
  /// point. Keeps the first kMostOwnNames of a job's own names and counts the others (Metric::kOwnNamesLeftOut).
  void Add(Second at, const std::vector<Reading>& readings);
  const Block& block() const { return block_; }
  Second newest() const { return newest_; }
  /// The last reported value of each of the job's own metrics.
  const std::map<std::string, double>& own() const { return own_; }
  /// Returns true if a second was added since the last call.
  bool TakeChanged() { return std::exchange(is_changed_, false); }

 private:
  Column* ColumnOf(const Reading& reading);
  /// Returns false if there is no room for another name.
  bool AddTo(std::size_t index, const Reading& reading);
  void Halve();

  Block block_;
  std::vector<double> weights_;  // Readings in the last point of each column.
  std::map<std::string, double> own_;
  Second newest_ = 0;
  bool is_changed_ = false;
};

/// Returns how a column's values are combined. Own metrics that count steps keep the newest value.
Fold FoldOf(const Column& column);

}  // namespace divvy::samples
