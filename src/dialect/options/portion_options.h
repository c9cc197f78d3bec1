// GPU fractions: "--gpus 0.25", "--gpus 2x0.5", and related options (docs/sharing.md). --gpu-memory without a number of
// GPUs, or with --shared, is a fraction by memory.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// --gpu-memory 0: an explicit zero, which CompletePortion interprets according to the rest of the request.
inline constexpr Bytes kNoGpuMemory{-1};

/// --gpus: "2", "2..8", "0.25", "2x0.5".
Status ApplyGpus(std::string_view text, Request& request);
/// --gpu-limit, --gpu-memory-limit, --shared, --compute, --idle-park, --mps, --slice.
void AddPortionOptions(std::vector<Option>& table, JobSpec& spec);
/// Parses the value of --slice into the form in a request: "1g.18gb", "1g", ">=16G".
Result<std::string> ReadSlice(std::string_view value);

/// Call once all options are parsed: for a job that shares its GPUs, --gpu-memory 20G becomes its fraction.
void CompletePortion(JobSpec& spec);
Status CheckPortion(const JobSpec& spec);

/// "a quarter": "0.25 of a GPU, up to 0.8". Empty if it requests whole GPUs.
std::string PortionReading(const Request& request);

}  // namespace divvy::dialect
