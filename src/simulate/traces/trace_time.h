// Times and durations in the formats of traces and Slurm.
#pragma once

#include <optional>
#include <string_view>

#include "base/time.h"

namespace divvy::simulate {

/// Parses a date, with or without a time: "2020-09-01", "2020-09-01 01:37:15", "2020-09-01T01:37:15". It is read as
/// UTC, so that the hour of the day stays the same as in the trace.
std::optional<Time> ParseDateTime(std::string_view text);

/// Parses a duration as Slurm writes it: "[DAYS-]HOURS:MINUTES:SECONDS[.FRACTION]", "MINUTES:SECONDS",
/// "DAYS-HOURS[:MINUTES]".
std::optional<Duration> ParseSlurmDuration(std::string_view text);

/// Converts seconds with a fraction to a duration, rounded to microseconds.
inline Duration DurationFromSeconds(double seconds) { return TimeFromSeconds(seconds).time_since_epoch(); }

}  // namespace divvy::simulate
