// A period of time as equidistant points, and its encoding for storage and transport.
//
// Encoding (docs/samples.md, "The bytes of a block"): values are integer multiples of the metric's quantum. Means are
// stored as differences from the previous mean, minima and maxima as distances from the mean. Zeros are run-length
// coded, and numbers have variable length (LEB128). Constant values therefore cost almost nothing, small changes one
// byte. Source: delta and run-length coding as in Facebook's Gorilla paper (VLDB 2015), with bytes for integers.
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
  std::string name;  // Set for a metric reported by the job itself; then `metric` is ignored.
  std::vector<Point> points;
};

struct Block {
  Second begin = 0;
  Second step = 1;
  std::size_t count = 0;  // Points per column.
  std::vector<Column> columns;

  Second end() const { return begin + step * static_cast<Second>(count); }
};

inline constexpr std::size_t kMostBlockPoints = 4096;

/// Encodes a block for storage or transport. Requires: `block.count` is at most kMostBlockPoints.
std::string EncodeBlock(const Block& block);
/// Selects columns. `own_name` is the name of a metric that a job reported itself, otherwise empty.
using IsWanted = std::function<bool(Metric metric, std::string_view own_name)>;
/// Decodes the columns for which `is_wanted` returns true; null: all. Errors: kCorruptData for bytes that EncodeBlock
/// never writes.
Result<Block> DecodeBlock(std::string_view bytes, const IsWanted& is_wanted = nullptr);

/// Encodes consecutive seconds, as sent by an agent, with the same precision as EncodeBlock.
std::string EncodeSnapshots(const std::vector<Snapshot>& snapshots);
Result<std::vector<Snapshot>> DecodeSnapshots(std::string_view bytes);

}  // namespace divvy::samples
