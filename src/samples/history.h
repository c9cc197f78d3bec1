// What is known of one subject: its last ten minutes second by second, and behind them thinner levels, each of which is
// gathered into blocks for the disk.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "samples/block.h"

namespace divvy::samples {

inline constexpr Second kRingSeconds = 600;

struct Level {
  Second step;               // Seconds that become one point.
  Second reach;              // How far back it is kept.
  std::size_t block_points;  // Of a full block.
};
/// 10 s for a day, a minute for a month, a quarter of an hour for two years. Blocks of the finest are short, for they
/// are many and soon gone.
inline constexpr std::array<Level, 3> kLevels = {{{10, 86'400, 60}, {60, 31 * 86'400, 240}, {900, 731 * 86'400, 96}}};

class History {
 public:
  /// Without levels it is the ring alone.
  explicit History(bool has_levels = true) : has_levels_(has_levels) {}

  /// Seconds come in order; one that does not, or is of long ago, is for the ring alone, or for nothing.
  void Add(Second at, const std::vector<Reading>& readings);

  /// The newest second, and what it showed; 0 and nothing before the first.
  Second newest() const { return newest_; }
  const std::vector<Reading>& Newest() const { return newest_readings_; }
  std::optional<double> NewestOf(Metric metric) const;
  /// Of its last so many seconds up to the newest, those that were seen. Requires: kRingSeconds at most.
  std::optional<double> MeanOf(Metric metric, Second seconds) const;

  /// Of the ring: from `since` until before `until`.
  Block Seconds(Second since, Second until) const;
  /// Of kLevels[level]: what is not in a full block yet, the bucket that is under way included. No points: nothing.
  Block Open(std::size_t level) const;
  /// Full blocks that were not taken yet, in the order in which they became full.
  const std::vector<Block>& full() const { return full_; }
  std::vector<Block> TakeFull();
  /// The same as Open, if it has changed since the last call: to be kept in place of what was kept of it before.
  std::optional<Block> TakeChanged(std::size_t level);

 private:
  struct Bucket {
    Second begin = 0;
    std::vector<Point> points;    // By column.
    std::vector<double> weights;  // Seconds in each.
  };
  struct Gathering {
    Block block;  // Its columns are as columns_.
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
  std::vector<std::vector<float>> ring_;  // By column; second s is at s % kRingSeconds.
  Second oldest_ = 0;                     // In the ring.
  Second newest_ = 0;
  std::vector<Reading> newest_readings_;
  std::array<Gathering, kLevels.size()> levels_;
  std::vector<Block> full_;
};

}  // namespace divvy::samples
