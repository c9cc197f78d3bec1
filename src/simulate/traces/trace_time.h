// Times and durations as traces and Slurm write them.
#pragma once

#include <optional>
#include <string_view>

#include "base/time.h"

namespace divvy::simulate {

/// "2020-09-01", "2020-09-01 01:37:15" or with a T between; no zone: read as UTC, so that the hour of the day stays
/// what the trace says.
std::optional<Time> ParseDateTime(std::string_view text);

/// Slurm's "[DAYS-]HOURS:MINUTES:SECONDS[.FRACTION]", "MINUTES:SECONDS", "DAYS-HOURS[:MINUTES]".
std::optional<Duration> ParseSlurmDuration(std::string_view text);

/// Seconds with a fraction, to the microsecond.
inline Duration DurationFromSeconds(double seconds) { return TimeFromSeconds(seconds).time_since_epoch(); }

}  // namespace divvy::simulate
