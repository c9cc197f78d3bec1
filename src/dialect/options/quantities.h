// Sizes, durations, times and GPU requests in every form that people write them, each with one clear error, and the
// reading printed back.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace divvy::dialect {

/// "20G", "512MiB", "1.5T", "24g", "16384M"; a bare number counts `bare_unit` bytes. K, M, G, T are powers of 1024, as
/// Slurm and gflow have them; "GB" too (what a GPU's label says is what nvidia-smi's MiB say closely enough).
Result<Bytes> ParseSize(std::string_view text, std::int64_t bare_unit);

/// "90s", "5m", "1h30m", "1h 30m 5s", "2d", "1w", "1.5h", "HH:MM:SS", "D-HH:MM:SS"; a bare number counts `bare_unit`.
/// "MM:SS" is minutes and seconds (Slurm, gflow).
Result<Duration> ParseDuration(std::string_view text, Duration bare_unit);

/// Slurm's --time: m, m:s, h:m:s, d-h, d-h:m, d-h:m:s, "infinite"/"unlimited"/0 = none (Duration 0).
Result<Duration> ParseSlurmTime(std::string_view text);

/// "now+1h", "now+30" (seconds), "16:00", "16:00:30", "midnight", "noon", "teatime", "tomorrow", "2026-03-01",
/// "2026-03-01T16:00[:30]", "03/01/26". A time of day that has passed means tomorrow. `utc_offset` is local minus UTC.
Result<Time> ParseMoment(std::string_view text, Time now, Duration utc_offset);

/// A moment that lies behind whoever names it: "2h", "7d" (so long ago; a bare number counts hours), "16:00" (the last
/// that there was), "now", "today" and "yesterday" (their midnight), "2026-03-01", "2026-03-01T16:00[:30]". A date that
/// is still to come is as it says.
Result<Time> ParsePastMoment(std::string_view text, Time now, Duration utc_offset);

/// "SIGUSR1", "USR1", "10" -> 10.
Result<int> ParseSignal(std::string_view text);
std::string SignalName(int signal);  // "SIGUSR1"

/// "20 GiB", "512 MiB", "1.5 TiB".
std::string FormatSize(Bytes size);
/// "1 h 30 min", "45 s", "2 d 3 h", "0.3 s": the two largest units.
std::string FormatDuration(Duration duration);
/// "1-02:03:04" / "02:03:04" / "3:04": as Slurm's TIME column has it.
std::string FormatClock(Duration duration);

}  // namespace divvy::dialect
