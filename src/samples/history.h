// The samples of one subject: the last ten minutes in seconds, and coarser levels, which are collected into blocks for
// the disk.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "samples/block.h"

namespace divvy::samples {

inline constexpr Second kRingSeconds = 600;

struct Level {
  Second step;               // Seconds per point.
  Second reach;              // How long it is kept, in seconds.
  std::size_t block_points;  // Points in a full block.
};
/// 10 s for a day, 1 min for a month, 15 min for two years. Blocks of the finest level are short, because they are many
/// and soon deleted.
inline constexpr std::array<Level, 3> kLevels = {{{10, 86'400, 60}, {60, 31 * 86'400, 240}, {900, 731 * 86'400, 96}}};

class History {
 public:
  /// `has_levels`: also keeps the coarser points of kLevels. Otherwise only the last ten minutes are kept, second by
  /// second.
  explicit History(bool has_levels = true) : has_levels_(has_levels) {}

  /// Adds the readings of one second; call this in order of time. A second that is older than the newest one is added
  /// only to the last ten minutes, and is dropped if it is older than those.
  void Add(Second at, const std::vector<Reading>& readings);

  /// The newest second and its readings; 0 and empty before the first.
  Second newest() const { return newest_; }
  const std::vector<Reading>& Newest() const { return newest_readings_; }
  std::optional<double> NewestOf(Metric metric) const;
  /// Returns the mean of the metric over the last `seconds` seconds. Seconds without a value are left out; nullopt if
  /// none has one. Requires: `seconds` is at most kRingSeconds.
  std::optional<double> MeanOf(Metric metric, Second seconds) const;

  /// Returns the points, one per second, from `since` (inclusive) to `until` (exclusive), as far as they are in the
  /// last ten minutes.
  Block Seconds(Second since, Second until) const;
  /// Returns the points of kLevels[level] that are not in a full block yet, including the point that is still being
  /// collected. The block is empty if there are no such points.
  Block Open(std::size_t level) const;
  /// Full blocks that were not taken yet, in order of completion.
  const std::vector<Block>& full() const { return full_; }
  std::vector<Block> TakeFull();
  /// Returns the block of Open(level) if it has changed since the last call; it then replaces the stored version of
  /// that block.
  std::optional<Block> TakeChanged(std::size_t level);

 private:
  struct Bucket {
    Second begin = 0;
    std::vector<Point> points;    // One per column.
    std::vector<double> weights;  // Seconds in each point.
  };
  struct Gathering {
    Block block;  // Its columns match columns_.
    Bucket bucket;
    bool is_changed = false;
  };
  std::size_t ColumnOf(Metric metric);
  void AddToLevel(std::size_t level, Second at, const std::vector<Reading>& readings);
  void CloseBucket(std::size_t level);
  void Seal(std::size_t level);
  static void Append(Block& block, const std::vector<Metric>& metrics, const std::vector<Point>& points);

  bool has_levels_;
  std::vector<Metric> columns_;
  std::vector<std::vector<float>> ring_;  // By column; second s is at index s % kRingSeconds.
  Second oldest_ = 0;                     // The oldest second in the ring.
  Second newest_ = 0;
  std::vector<Reading> newest_readings_;
  std::array<Gathering, kLevels.size()> levels_;
  std::vector<Block> full_;
};

}  // namespace divvy::samples
