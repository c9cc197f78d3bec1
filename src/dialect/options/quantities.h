// Parsers for sizes, durations, times and signals in all the forms that users write, each with a clear error. Also
// formats them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace divvy::dialect {

/// "20G", "512MiB", "1.5T", "24g", "16384M"; a number without a unit counts `bare_unit` bytes. K, M, G, T are powers of
/// 1024, as in Slurm and gflow. So is "GB", which is close enough to a GPU's nominal size.
Result<Bytes> ParseSize(std::string_view text, std::int64_t bare_unit);

/// "90s", "5m", "1h30m", "1h 30m 5s", "2d", "1w", "1.5h", "HH:MM:SS", "D-HH:MM:SS"; a number without a unit counts
/// `bare_unit`. "MM:SS" is minutes and seconds, as in Slurm and gflow.
Result<Duration> ParseDuration(std::string_view text, Duration bare_unit);

/// Slurm's --time: m, m:s, h:m:s, d-h, d-h:m, d-h:m:s. "infinite", "unlimited" and 0 mean no limit (Duration 0).
Result<Duration> ParseSlurmTime(std::string_view text);

/// "now+1h", "now+30" (seconds), "16:00", "16:00:30", "midnight", "noon", "teatime", "tomorrow", "2026-03-01",
/// "2026-03-01T16:00[:30]", "03/01/26". A time of day that has passed means tomorrow. `utc_offset` is local minus UTC.
Result<Time> ParseMoment(std::string_view text, Time now, Duration utc_offset);

/// A moment in the past: "2h", "7d" (that long ago; a bare number counts hours), "16:00" (the last one), "now", "today"
/// and "yesterday" (at midnight), "2026-03-01", "2026-03-01T16:00[:30]". A date in the future is returned as such.
Result<Time> ParsePastMoment(std::string_view text, Time now, Duration utc_offset);

/// "SIGUSR1", "USR1", "10" -> 10.
Result<int> ParseSignal(std::string_view text);
std::string SignalName(int signal);  // "SIGUSR1"

/// "20 GiB", "512 MiB", "1.5 TiB".
std::string FormatSize(Bytes size);
/// "1 h 30 min", "45 s", "2 d 3 h", "0.3 s": the two largest units.
std::string FormatDuration(Duration duration);
/// "1-02:03:04" / "02:03:04" / "3:04", as in Slurm's TIME column.
std::string FormatClock(Duration duration);

}  // namespace divvy::dialect
