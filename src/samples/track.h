// A job as a whole, however long it runs, in a bounded number of points: when there is no room for another, each two
// become one. So an hour is known by tens of seconds, a week by the quarter of an hour, and all of it is kept with the
// job.
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
  /// Goes on with what was kept.
  explicit Track(Block block);

  /// Seconds come in order; what is of before the last point goes into it. Of a job's own names the first
  /// kMostOwnNames are kept, and how many more were said (Metric::kOwnNamesLeftOut).
  void Add(Second at, const std::vector<Reading>& readings);
  const Block& block() const { return block_; }
  Second newest() const { return newest_; }
  /// The last value of each of a job's own names, as it was said.
  const std::map<std::string, double>& own() const { return own_; }
  /// True once after it has changed.
  bool TakeChanged() { return std::exchange(is_changed_, false); }

 private:
  Column* ColumnOf(const Reading& reading);
  /// False: there is no room for its name.
  bool AddTo(std::size_t index, const Reading& reading);
  void Halve();

  Block block_;
  std::vector<double> weights_;  // Of the last point of each column, in readings.
  std::map<std::string, double> own_;
  Second newest_ = 0;
  bool is_changed_ = false;
};

/// How values of a job's own become one: those that count steps are the newest.
Fold FoldOf(const Column& column);

}  // namespace divvy::samples
