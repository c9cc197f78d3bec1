#include "samples/job_use.h"

#include <algorithm>
#include <set>
#include <vector>

namespace divvy::samples {
namespace {

constexpr Second kLongestHold = 60;
constexpr Second kHour = 3600;

/// Returns for each point of the track whether any use was recorded.
std::vector<bool> SeenIn(const Block& track) {
  std::vector<bool> seen(track.count);
  for (const Column& column : track.columns) {
    if (!IsOfUse(column.metric, column.name)) continue;
    const std::size_t count = std::min(track.count, column.points.size());
    for (std::size_t i = 0; i < count; ++i) seen[i] = seen[i] || IsPoint(column.points[i]);
  }
  return seen;
}

/// Calls take(metric, point, begin, end) for each point in the period, clipped to it. A point holds until the next
/// point with any value. If that point lacks this column, as for a paused job, the time from there on is unknown.
template <typename Take>
void ForEachPiece(const Block& track, Second since, Second until, const Take& take) {
  const Second longest = std::max(track.step, kLongestHold);
  const std::vector<bool> seen = SeenIn(track);
  for (const Column& column : track.columns) {
    if (!IsOfUse(column.metric, column.name)) continue;
    const std::size_t count = std::min(track.count, column.points.size());
    for (std::size_t i = 0; i < count;) {
      std::size_t next = i + 1;
      while (next < count && !seen[next]) ++next;
      const Point& point = column.points[i];
      const Second begin = track.begin + static_cast<Second>(i) * track.step;
      const Second hold = next < count ? std::min(static_cast<Second>(next - i) * track.step, longest) : track.step;
      const Second from = std::max(begin, since);
      const Second to = std::min(begin + hold, until);
      i = next;
      if (IsPoint(point) && from < to) take(column.metric, point, from, to);
    }
  }
}

void AddPiece(Metric metric, const Point& point, double seconds, JobUse& use) {
  const auto mean = static_cast<double>(point.mean);
  if (metric == Metric::kGpuUtilization) {
    use.seconds += seconds;
    use.use_seconds += seconds * mean;
    if (point.greatest <= 0) use.idle_seconds += seconds;
  } else if (metric == Metric::kGpuMemoryUsed) {
    use.memory_peak = std::max(use.memory_peak, static_cast<double>(point.greatest));
  } else if (metric == Metric::kGpuMemoryMost) {
    use.memory_most = std::max(use.memory_most, static_cast<double>(point.greatest));
  } else {
    use.cpu_seconds += seconds;
    use.core_seconds += seconds * mean;
  }
}

}  // namespace

bool IsOfUse(Metric metric, std::string_view own_name) {
  if (!own_name.empty()) return false;
  return metric == Metric::kGpuUtilization || metric == Metric::kGpuMemoryUsed || metric == Metric::kGpuMemoryMost ||
         metric == Metric::kCpuCores;
}

void AddUse(const Block& track, Second since, Second until, JobUse& use) {
  bool has_any = false;
  double tail = 0;
  Second tail_end = 0;
  ForEachPiece(track, since, until, [&](Metric metric, const Point& point, Second begin, Second end) {
    has_any = true;
    const auto seconds = static_cast<double>(end - begin);
    AddPiece(metric, point, seconds, use);
    if (metric != Metric::kGpuUtilization) return;
    // The time between points that are further apart is unknown.
    if (point.greatest > 0 || begin - tail_end > kLongestHold) tail = 0;
    if (point.greatest <= 0) tail += seconds;
    tail_end = end;
  });
  if (!has_any) return;
  use.idle_tail = use.machines == 0 ? tail : std::min(use.idle_tail, tail);
  ++use.machines;
}

void AddUseByHour(const Block& track, Second since, Second until, const std::function<JobUse&(Second hour)>& use_of) {
  std::set<Second> seen;
  ForEachPiece(track, since, until, [&](Metric metric, const Point& point, Second begin, Second end) {
    while (begin < end) {
      const Second hour = begin - begin % kHour;
      const Second to = std::min(end, hour + kHour);
      AddPiece(metric, point, static_cast<double>(to - begin), use_of(hour));
      seen.insert(hour);
      begin = to;
    }
  });
  for (const Second hour : seen) ++use_of(hour).machines;
}

}  // namespace divvy::samples
