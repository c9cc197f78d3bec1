// The values of options that mean the same in divvy's own table and in gflow's. Each function reads one value or says,
// in one line without the option's name, what is wrong with it. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "dialect/options/job_options.h"
#include "model/job.h"

namespace divvy::dialect {

/// What a bare number of a size counts: Slurm and gflow both mean megabytes.
inline constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

/// A whole number between `least` and `most`; `what` is the noun of the error.
Result<int> ReadCount(std::string_view text, int least, int most, std::string_view what);
/// "2"; refuses shares ("0.5", "2x0.5") and ranges ("2..8") for what they are.
Result<int> ReadGpuCount(std::string_view text);
/// The same, and "2..8" for an elastic job: Request::gpus and gpus_most.
struct GpuRange {
  int least = 0;
  int most = 0;  // 0: exactly `least`.
};
Result<GpuRange> ReadGpuRange(std::string_view text);
Result<Preemptible> ReadPreemptible(std::string_view text);
/// Request::gpu_type, checked; its speeds ("h100*1.0|a100*0.55") stay in it.
Result<std::string> ReadGpuType(std::string_view text);
/// A duration whose bare number is minutes; "none", "unlimited" and 0 are no limit.
Result<Duration> ReadTimeLimit(std::string_view text);
/// "0-99%8".
Result<ArraySpec> ReadArray(std::string_view text);
/// "USR1@300", "B:USR1@5m", "USR1" (60 seconds before, as Slurm has it).
Result<WarnSignal> ReadWarnSignal(std::string_view text);
Result<PlacementStrategy> ReadPlacement(std::string_view text);
/// True: append.
Result<bool> ReadOpenMode(std::string_view text);
/// One line of at most `longest` bytes, not empty.
Result<std::string> ReadLabel(std::string_view text, std::size_t longest);
Result<std::string> ReadPath(std::string_view text);
/// Absolute: a relative one is taken from the caller's directory, "~" from the home.
Result<std::string> ReadDirectory(std::string_view text, const Surroundings& around);
/// The text of a file that an option names; a relative path is taken from the caller's directory.
Result<std::string> ReadNamedFile(std::string_view path, const Surroundings& around);

/// "NAME=VALUE" with a name that the environment can hold.
Result<std::string> ReadEnvironmentPair(std::string_view text);
/// Adds "NAME=VALUE" to spec.extra_environment, in place of an earlier value.
void SetEnvironment(JobSpec& spec, const std::string& pair);
/// --export: keeps ALL, NONE or the names in a label for CompleteCapture, and sets each NAME=VALUE.
Status ApplyExport(std::string_view text, JobSpec& spec);

/// Adds a note once.
void AddNote(JobSpec& spec, std::string_view note);

}  // namespace divvy::dialect
