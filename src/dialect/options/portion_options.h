// GPU fractions: "--gpus 0.25", "--gpus 2x0.5", and related options (docs/sharing.md). --gpu-memory without a number of
// GPUs, or with --shared, is a fraction by memory.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// Stored for --gpu-memory 0, to distinguish it from a missing option. CompletePortion decides what it means: with
/// whole GPUs, any GPU will do.
inline constexpr Bytes kNoGpuMemory{-1};

/// --gpus: "2", "2..8", "0.25", "2x0.5".
Status ApplyGpus(std::string_view text, Request& request);
/// --gpu-limit, --gpu-memory-limit, --shared, --compute, --idle-park, --mps, --slice.
void AddPortionOptions(std::vector<Option>& table, JobSpec& spec);
/// Parses the value of --slice into the form in a request: "1g.18gb", "1g", ">=16G".
Result<std::string> ReadSlice(std::string_view value);

/// Call once all options are parsed. For a job that shares its GPUs, --gpu-memory 20G then requests a GPU fraction with
/// this much memory, and no longer a GPU with at least this much.
void CompletePortion(JobSpec& spec);
Status CheckPortion(const JobSpec& spec);

/// Describes the requested GPU fraction: "0.25 of a GPU, up to 0.8". Empty if the job requests whole GPUs.
std::string PortionReading(const Request& request);

}  // namespace divvy::dialect
