// Times and durations in the formats of traces and Slurm.
#pragma once

#include <optional>
#include <string_view>

#include "base/time.h"

namespace divvy::simulate {

/// "2020-09-01", "2020-09-01 01:37:15", or with a T in between. It has no time zone and is read as UTC, so that the
/// hour of the day stays the same as in the trace.
std::optional<Time> ParseDateTime(std::string_view text);

/// Slurm's "[DAYS-]HOURS:MINUTES:SECONDS[.FRACTION]", "MINUTES:SECONDS", "DAYS-HOURS[:MINUTES]".
std::optional<Duration> ParseSlurmDuration(std::string_view text);

/// Seconds with a fraction, to the microsecond.
inline Duration DurationFromSeconds(double seconds) { return TimeFromSeconds(seconds).time_since_epoch(); }

}  // namespace divvy::simulate
