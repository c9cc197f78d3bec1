// One time for everything that is kept: nanoseconds since 1970, UTC. The daemon's clock reads the wall once at start
// and goes on monotonically (platform/clock.h), so `Time` never runs backwards while it decides, and a wait that began
// before a restart goes on counting after it.
#pragma once

#include <chrono>
#include <cstdint>

namespace divvy {

using Duration = std::chrono::nanoseconds;

struct Epoch1970 {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
};
using Time = std::chrono::time_point<Epoch1970, Duration>;

using namespace std::chrono_literals;  // NOLINT: 5s, 3ms are how this code base writes durations.

/// Not set, for a start or an end that has not happened.
inline constexpr Time kNoTime = Time(Duration(0));
/// Later than anything: an end that nobody knows.
inline constexpr Time kNever = Time::max();

/// Seconds since 1970 with a fraction, as every JSON field has it. Doubles hold microseconds exactly until 2255.
inline double ToSeconds(Time time) { return static_cast<double>(time.time_since_epoch().count() / 1000) / 1e6; }
inline double ToSeconds(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }
inline Time TimeFromSeconds(double seconds) { return Time(Duration(static_cast<std::int64_t>(seconds * 1e6) * 1000)); }

/// `time + duration` that stays at kNever instead of wrapping.
inline Time AddSaturating(Time time, Duration duration) {
  if (time == kNever || duration == Duration::max() || kNever - time < duration) return kNever;
  return time + duration;
}

}  // namespace divvy
