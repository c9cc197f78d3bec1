#include "samples/job_use.h"

#include <algorithm>

namespace divvy::samples {
namespace {

constexpr Second kLongestHold = 60;

}  // namespace

bool IsOfUse(Metric metric, std::string_view own_name) {
  if (!own_name.empty()) return false;
  return metric == Metric::kGpuUtilization || metric == Metric::kGpuMemoryUsed || metric == Metric::kGpuMemoryMost ||
         metric == Metric::kCpuCores;
}

void AddUse(const Block& track, Second since, Second until, JobUse& use) {
  const Second longest = std::max(track.step, kLongestHold);
  bool has_any = false;
  for (const Column& column : track.columns) {
    if (!IsOfUse(column.metric, column.name)) continue;
    const std::size_t count = std::min(track.count, column.points.size());
    for (std::size_t i = 0; i < count;) {
      std::size_t next = i + 1;
      while (next < count && !IsPoint(column.points[next])) ++next;
      const Point& point = column.points[i];
      const Second begin = track.begin + static_cast<Second>(i) * track.step;
      const Second hold = next < count ? std::min(static_cast<Second>(next - i) * track.step, longest) : track.step;
      const auto seconds = static_cast<double>(std::min(begin + hold, until) - std::max(begin, since));
      i = next;
      if (!IsPoint(point) || seconds <= 0) continue;
      has_any = true;
      const auto mean = static_cast<double>(point.mean);
      if (column.metric == Metric::kGpuUtilization) {
        use.seconds += seconds;
        use.use_seconds += seconds * mean;
        if (point.greatest <= 0) use.idle_seconds += seconds;
      } else if (column.metric == Metric::kGpuMemoryUsed) {
        use.memory_peak = std::max(use.memory_peak, static_cast<double>(point.greatest));
      } else if (column.metric == Metric::kGpuMemoryMost) {
        use.memory_most = std::max(use.memory_most, static_cast<double>(point.greatest));
      } else {
        use.cpu_seconds += seconds;
        use.core_seconds += seconds * mean;
      }
    }
  }
  if (has_any) ++use.machines;
}

}  // namespace divvy::samples
