#include "base/duration_text.h"

#include <cstdint>

namespace divvy {
namespace {

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;

std::int64_t RoundTo(Duration duration, std::int64_t unit_seconds) {
  const std::int64_t unit = unit_seconds * 1'000'000'000;
  const std::int64_t count = duration.count() / unit;
  return (count + (duration.count() % unit >= unit / 2 ? 1 : 0)) * unit_seconds;
}

std::string Two(std::int64_t seconds, std::int64_t large, const char* large_name, std::int64_t small,
                const char* small_name) {
  std::string out = std::to_string(seconds / large) + large_name;
  if (const std::int64_t rest = seconds % large / small; rest > 0) out += " " + std::to_string(rest) + small_name;
  return out;
}

}  // namespace

std::string DurationText(Duration duration) {
  if (duration <= Duration(0)) return "0 s";
  if (duration < std::chrono::milliseconds(1)) return "under 1 ms";
  if (duration < std::chrono::milliseconds(100)) return std::to_string(duration / std::chrono::milliseconds(1)) + " ms";
  if (duration < std::chrono::milliseconds(9950)) {
    const std::int64_t tenths = (duration + std::chrono::milliseconds(50)) / std::chrono::milliseconds(100);
    if (tenths % 10 == 0) return std::to_string(tenths / 10) + " s";
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
  }
  // The duration is rounded before the unit is chosen, so that 59.7 s becomes "1 min" and never "60 s".
  if (const std::int64_t seconds = RoundTo(duration, 1); seconds < kMinute) return std::to_string(seconds) + " s";
  else if (seconds < kHour) return Two(seconds, kMinute, " min", 1, " s");
  if (const std::int64_t seconds = RoundTo(duration, kMinute); seconds < kDay)
    return Two(seconds, kHour, " h", kMinute, " min");
  return Two(RoundTo(duration, kHour), kDay, " d", kHour, " h");
}

std::string DurationFlag(Duration duration) {
  std::int64_t seconds = duration.count() / 1'000'000'000;
  if (seconds < 2 * kMinute) return std::to_string(seconds < 0 ? 0 : seconds) + "s";
  std::string out;
  if (seconds >= 2 * kDay) out += std::to_string(seconds / kDay) + "d", seconds %= kDay;
  if (seconds >= kHour) out += std::to_string(seconds / kHour) + "h", seconds %= kHour;
  if (seconds >= kMinute) out += std::to_string(seconds / kMinute) + "m";
  return out;
}

}  // namespace divvy
