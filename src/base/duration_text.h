// Durations as text for people. Pure: no locale, no clock.
#pragma once

#include <string>

#include "base/time.h"

namespace divvy {

/// The two largest non-zero units: "2 d 3 h", "1 h 5 min", "12 min", "12 min 30 s", "45 s", "0.3 s", "0 s". From one
/// minute on, seconds are rounded; from an hour on, minutes; from a day on, hours. Durations below 0.1 s are whole
/// milliseconds, or "under 1 ms". Negative durations become "0 s".
std::string DurationText(Duration duration);

/// A duration in the syntax of the command line, rounded down so that it never promises too much: "2d", "1h30m", "40m",
/// "90s".
std::string DurationFlag(Duration duration);

}  // namespace divvy
