// Parsers for option values that divvy's own table and gflow's share. Each returns a one-line error without the
// option's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "dialect/options/parse_context.h"
#include "model/job.h"

namespace divvy::dialect {

/// The unit of a size without a suffix, as in Slurm and gflow: megabytes.
inline constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

/// A whole number between `least` and `most`; `what` is the noun in the error.
Result<int> ReadCount(std::string_view text, int least, int most, std::string_view what);
/// "2". Refuses fractions ("0.5", "2x0.5") and ranges ("2..8") with specific errors.
Result<int> ReadGpuCount(std::string_view text);
/// The value of --gpus for whole GPUs: "2", or "2..8" for an elastic job. For Request::gpus and max_gpus.
struct GpuRange {
  int least = 0;
  int most = 0;  // 0: exactly `least`.
};
Result<GpuRange> ReadGpuRange(std::string_view text);
/// Parses the value of --topology: "any", "numa" or "nvlink", the last two optionally with ":required".
Status ParseTopology(std::string_view text, Request& request);
Result<Preemptible> ReadPreemptible(std::string_view text);
/// Checks Request::gpu_type, with its speeds ("h100*1.0|a100*0.55").
Result<std::string> ReadGpuType(std::string_view text);
/// Parses a time limit. A number without a unit counts minutes; "none", "unlimited" and 0 mean no limit.
Result<Duration> ReadTimeLimit(std::string_view text);
/// "0-99%8".
Result<ArraySpec> ReadArray(std::string_view text);
/// "USR1@300", "B:USR1@5m", "USR1" (60 seconds before the end, as in Slurm).
Result<WarnSignal> ReadWarnSignal(std::string_view text);
Result<PlacementStrategy> ReadPlacement(std::string_view text);
/// Parses "append" or "truncate". Returns true for append.
Result<bool> ReadOpenMode(std::string_view text);
/// A non-empty line of at most `longest` bytes.
Result<std::string> ReadLabel(std::string_view text, std::size_t longest);
Result<std::string> ReadPath(std::string_view text);
/// Returns an absolute path. A relative one starts at the caller's directory; "~" is the home directory.
Result<std::string> ReadDirectory(std::string_view text, const ParseContext& around);
/// Reads a file that an option names. A relative path starts at the caller's directory.
Result<std::string> ReadNamedFile(std::string_view path, const ParseContext& around);

/// "NAME=VALUE" with a valid variable name.
Result<std::string> ReadEnvironmentPair(std::string_view text);
/// Adds "NAME=VALUE" to spec.extra_environment, replacing an earlier value.
void SetEnvironment(JobSpec& spec, const std::string& pair);
/// Parses the value of --export: ALL, NONE or a list of variables. Stores the names in a label, which CompleteCapture
/// applies, and sets each NAME=VALUE.
Status ApplyExport(std::string_view text, JobSpec& spec);

/// Applies --export to the environment that was captured from the caller (spec.capture). Call after spec.capture is
/// filled and before the submission. Does nothing without --export, or for a job that was parsed with Slurm's options
/// (see CompleteSlurm). Calling it twice is harmless.
void CompleteCapture(JobSpec& spec);
/// True if --export was given.
bool NamesExports(const JobSpec& spec);

/// Adds a note unless it exists already.
void AddNote(JobSpec& spec, std::string_view note);

}  // namespace divvy::dialect
