#include "samples/block.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "samples/bytes.h"

namespace divvy::samples {
namespace {

constexpr std::uint64_t kLayout = 1;
constexpr std::uint64_t kOwn = 255;  // Replaces a metric's number if a name follows.
constexpr std::size_t kMostColumns = 256;
constexpr std::size_t kMostName = 256;
constexpr std::uint64_t kFlat = 1;  // A flag: minimum and maximum equal the mean everywhere.

// Larger values are cut to this one, so that differences of values do not overflow. No metric has such values.
constexpr double kMostQuanta = 4e18;

std::int64_t Quanta(float value, double quantum) {
  const double count = std::round(static_cast<double>(value) / quantum);
  return static_cast<std::int64_t>(std::clamp(count, -kMostQuanta / 4, kMostQuanta / 4));
}

float FromQuanta(std::int64_t quanta, double quantum) {
  return static_cast<float>(static_cast<double>(quanta) * quantum);
}

bool IsFlat(const Point& point) { return point.least == point.mean && point.greatest == point.mean; }

// Writes run lengths, alternating between present and missing points.
void WritePresence(const std::vector<Point>& points, ByteWriter& out) {
  bool is_there = true;
  std::size_t run = 0;
  std::vector<std::uint64_t> runs;
  for (const Point& point : points) {
    if (IsPoint(point) != is_there) {
      runs.push_back(run);
      run = 0;
      is_there = !is_there;
    }
    ++run;
  }
  runs.push_back(run);
  out.Number(runs.size());
  for (const std::uint64_t length : runs) out.Number(length);
}

// Returns the indices of the present points among `count`.
std::vector<std::size_t> ReadPresence(ByteReader& in, std::size_t count) {
  std::vector<std::size_t> there;
  const std::size_t runs = in.Count(count + 2, 1);
  std::size_t at = 0;
  for (std::size_t i = 0; i < runs && !in.failed(); ++i) {
    const std::size_t run = in.Count(count - at);
    for (std::size_t k = 0; i % 2 == 0 && k < run; ++k) there.push_back(at + k);
    at += run;
  }
  return there;
}

std::string ValuesOf(const Column& column, bool is_flat) {
  ByteWriter out;
  WritePresence(column.points, out);
  if (!column.name.empty()) {
    for (const Point& point : column.points) {
      if (!IsPoint(point)) continue;
      out.Float(point.mean);
      if (is_flat) continue;
      out.Float(point.least);
      out.Float(point.greatest);
    }
    return out.Take();
  }
  const double quantum = FactsOf(column.metric).quantum;
  std::vector<std::uint64_t> means, below, above;
  std::int64_t before = 0;
  for (const Point& point : column.points) {
    if (!IsPoint(point)) continue;
    const std::int64_t mean = Quanta(point.mean, quantum);
    means.push_back(ByteWriter::Zigzag(mean - before));
    before = mean;
    // Because of rounding, the mean may lie outside the extremes.
    below.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(mean - Quanta(point.least, quantum), 0)));
    above.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(Quanta(point.greatest, quantum) - mean, 0)));
  }
  out.Runs(means);
  if (!is_flat) {
    out.Runs(below);
    out.Runs(above);
  }
  return out.Take();
}

void ReadOwn(ByteReader& in, const std::vector<std::size_t>& there, bool is_flat, std::vector<Point>& points) {
  for (const std::size_t at : there) {
    Point& point = points[at];
    point.mean = point.least = point.greatest = in.Float();
    if (is_flat) continue;
    point.least = in.Float();
    point.greatest = in.Float();
  }
}

void ReadValues(ByteReader& in, const std::vector<std::size_t>& there, bool is_flat, double quantum,
                std::vector<Point>& points) {
  const auto means = in.Runs(there.size());
  const auto below = is_flat ? std::vector<std::uint64_t>(there.size()) : in.Runs(there.size());
  const auto above = is_flat ? std::vector<std::uint64_t>(there.size()) : in.Runs(there.size());
  std::uint64_t mean = 0;  // Wraps instead of overflowing on invalid input.
  for (std::size_t i = 0; i < there.size(); ++i) {
    mean += static_cast<std::uint64_t>(ByteReader::Unzigzag(means[i]));
    points[there[i]] = {FromQuanta(static_cast<std::int64_t>(mean), quantum),
                        FromQuanta(static_cast<std::int64_t>(mean - below[i]), quantum),
                        FromQuanta(static_cast<std::int64_t>(mean + above[i]), quantum)};
  }
}

Error Corrupt() { return CorruptData("a block of samples is damaged"); }

}  // namespace

std::string EncodeBlock(const Block& block) {
  ByteWriter out;
  out.Number(kLayout);
  out.Signed(block.begin);
  out.Number(static_cast<std::uint64_t>(block.step));
  out.Number(block.count);
  out.Number(block.columns.size());
  for (const Column& column : block.columns) {
    const bool is_flat =
        std::ranges::all_of(column.points, [](const Point& point) { return !IsPoint(point) || IsFlat(point); });
    out.Number(column.name.empty() ? static_cast<std::uint64_t>(column.metric) : kOwn);
    if (!column.name.empty()) out.Text(column.name);
    out.Number(is_flat ? kFlat : 0);
    out.Text(ValuesOf(column, is_flat));
  }
  return out.Take();
}

Result<Block> DecodeBlock(std::string_view bytes, const IsWanted& is_wanted) {
  ByteReader in(bytes);
  Block block;
  if (in.Number() != kLayout) return Corrupt();
  block.begin = in.Signed();
  block.step = static_cast<Second>(in.Count(std::numeric_limits<std::int32_t>::max()));
  block.count = in.Count(kMostBlockPoints);
  const std::size_t columns = in.Count(kMostColumns, 1);
  if (block.step == 0) return Corrupt();
  for (std::size_t i = 0; i < columns; ++i) {
    Column column;
    const std::uint64_t number = in.Number();
    if (number == kOwn) column.name = std::string(in.Text(kMostName));
    const bool is_flat = (in.Number() & kFlat) != 0;
    ByteReader values(in.Text(bytes.size()));
    if (in.failed() || (number == kOwn && column.name.empty())) return Corrupt();
    if (number != kOwn && number >= kMetrics) continue;  // From a newer version.
    if (number != kOwn) column.metric = static_cast<Metric>(number);
    if (is_wanted && !is_wanted(column.metric, column.name)) continue;
    column.points.assign(block.count, NoPoint());
    const auto there = ReadPresence(values, block.count);
    if (column.name.empty()) ReadValues(values, there, is_flat, FactsOf(column.metric).quantum, column.points);
    else ReadOwn(values, there, is_flat, column.points);
    if (values.failed()) return Corrupt();
    block.columns.push_back(std::move(column));
  }
  return block;
}

}  // namespace divvy::samples
