// Durations as people say them. Pure: no locale, no clock.
#pragma once

#include <string>

#include "base/time.h"

namespace divvy {

/// The two largest units that are not zero: "2 d 3 h", "1 h 5 min", "12 min", "12 min 30 s", "45 s", "0.3 s", "0 s".
/// From one minute on, seconds are rounded; from an hour on, minutes; from a day on, hours. Negative durations read as
/// "0 s".
std::string DurationText(Duration duration);

/// A duration as the command line takes it, rounded down so that what it promises holds: "2d", "1h30m", "40m", "90s".
std::string DurationFlag(Duration duration);

}  // namespace divvy
