// A stretch of time as points of equal length, and its bytes as they are kept and sent.
//
// Bytes (docs/samples.md, "The bytes of a block"): values are whole multiples of their metric's quantum; means are
// differences from the one before, least and greatest are distances from the mean, zeros come in runs, and numbers take
// as many bytes as they need (LEB128). So what stays the same costs nothing, and what moves a little one byte.
// Source: differences and runs as in Facebook's Gorilla paper (VLDB 2015), by bytes for whole numbers.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "samples/sample.h"

namespace divvy::samples {

/// Points of one metric.
struct Column {
  Metric metric = Metric::kGpuUtilization;
  std::string name;  // Set: a job's own, and `metric` means nothing.
  std::vector<Point> points;
};

struct Block {
  Second begin = 0;
  Second step = 1;
  std::size_t count = 0;  // Of the points of each column.
  std::vector<Column> columns;

  Second end() const { return begin + step * static_cast<Second>(count); }
};

inline constexpr std::size_t kMostBlockPoints = 4096;

/// Requires: `count` is kMostBlockPoints at most.
std::string EncodeBlock(const Block& block);
/// `is_wanted`: which columns; null: all. kCorruptData for what EncodeBlock never writes.
using IsWanted = std::function<bool(Metric metric, std::string_view own_name)>;
Result<Block> DecodeBlock(std::string_view bytes, const IsWanted& is_wanted = nullptr);

/// Seconds that lie one after another, as bytes: what an agent sends. Readings are as exact as blocks keep them.
std::string EncodeSnapshots(const std::vector<Snapshot>& snapshots);
Result<std::vector<Snapshot>> DecodeSnapshots(std::string_view bytes);

}  // namespace divvy::samples
