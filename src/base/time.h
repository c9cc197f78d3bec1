// The time type of everything that is stored: nanoseconds since 1970, UTC. The daemon reads the wall clock once at its
// start and then advances monotonically (platform/os/clock.h). So `Time` never runs backwards while the daemon runs,
// and a wait that began before a restart continues to count after it.
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

/// The value of a time that is not set, such as the end of a job that still runs.
inline constexpr Time kNoTime = Time(Duration(0));
/// Later than every other time. Used for an end that is not known.
inline constexpr Time kNever = Time::max();

/// Seconds since 1970 with a fraction, as in every JSON field. Doubles hold microseconds exactly until 2255.
inline double ToSeconds(Time time) { return static_cast<double>(time.time_since_epoch().count() / 1000) / 1e6; }
inline double ToSeconds(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }
/// Rounds to the nearest microsecond, so that it inverts ToSeconds exactly. Values that Time cannot hold (more than 292
/// years either way) become the nearest possible Time, and NaN becomes kNoTime.
inline Time TimeFromSeconds(double seconds) {
  constexpr double kMostSeconds = 9.2e9;
  if (!(seconds > -kMostSeconds)) return seconds < 0 ? Time::min() : kNoTime;
  if (seconds >= kMostSeconds) return kNever;
  return Time(Duration(std::llround(seconds * 1e6) * 1000));
}

/// `time + duration`, but kNever instead of an overflow.
inline Time AddSaturating(Time time, Duration duration) {
  if (time == kNever || duration == Duration::max() || kNever - time < duration) return kNever;
  return time + duration;
}

}  // namespace divvy
