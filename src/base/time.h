// One time for everything that is kept: nanoseconds since 1970, UTC. The daemon's clock reads the wall once at start
// and goes on monotonically (platform/os/clock.h), so `Time` never runs backwards while it decides, and a wait that
// began before a restart goes on counting after it.
#pragma once

#include <chrono>
#include <cmath>
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
/// To the nearest microsecond, so that ToSeconds comes back exactly. What no Time holds (292 years either way, not a
/// number) becomes the nearest that one does, or kNoTime.
inline Time TimeFromSeconds(double seconds) {
  constexpr double kMostSeconds = 9.2e9;
  if (!(seconds > -kMostSeconds)) return seconds < 0 ? Time::min() : kNoTime;
  if (seconds >= kMostSeconds) return kNever;
  return Time(Duration(std::llround(seconds * 1e6) * 1000));
}

/// `time + duration` that stays at kNever instead of wrapping.
inline Time AddSaturating(Time time, Duration duration) {
  if (time == kNever || duration == Duration::max() || kNever - time < duration) return kNever;
  return time + duration;
}

}  // namespace divvy
