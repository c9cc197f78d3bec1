#include "wire/json/json_forms.h"

namespace divvy {
namespace {

/// From the year 2262 on, nanoseconds do not fit into 64 bits.
constexpr double kLastSecond = 9223372036.0;

}  // namespace

Result<GpuShare> JsonForm<GpuShare>::Decode(double json) {
  double parts = std::round(json * GpuShare::kWhole);
  if (!(std::fabs(parts) <= 2e9)) return InvalidArgument("too many GPUs");
  if (std::fabs(parts - json * GpuShare::kWhole) > 1e-6 * std::fabs(parts) + 1e-9) {
    return InvalidArgument("a GPU fraction has at most four decimal places");
  }
  return GpuShare(static_cast<std::int32_t>(parts));
}

Result<Time> JsonForm<Time>::Decode(std::optional<double> json) {
  if (!json) return kNoTime;
  if (*json >= kLastSecond) return kNever;
  if (!(*json >= 0)) return InvalidArgument("a time is in seconds since 1970 and must not be negative");
  // Rounded, so that a time written in microseconds reads back exactly.
  return Time(Duration(std::llround(*json * 1e6) * 1000));
}

Result<Duration> JsonForm<Duration>::Decode(double json) {
  if (json >= kLastSecond) return Duration::max();
  if (json <= -kLastSecond) return Duration::min();
  return Duration(std::llround(json * 1e9));
}

Result<GpuSet> JsonForm<GpuSet>::Decode(const std::vector<int>& json) {
  GpuSet set;
  for (int index : json) {
    if (index < 0 || index >= GpuSet::kCapacity) {
      return InvalidArgument("GPU " + std::to_string(index) + " is out of range (0 to " +
                             std::to_string(GpuSet::kCapacity - 1) + ")");
    }
    set.Insert(static_cast<GpuIndex>(index));
  }
  return set;
}

Result<IndexRanges> JsonForm<IndexRanges>::Decode(const std::string& json) {
  if (json.empty()) return IndexRanges();
  return IndexRanges::Parse(json, "the list");
}

}  // namespace divvy
