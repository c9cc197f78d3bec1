// Parts of GPUs: "--gpus 0.25", "--gpus 2x0.5", and the options that say more of them (docs/sharing.md). What is said
// by memory without a number of GPUs, or with --shared, is a part of one as well.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// --gpu-memory 0: said as none, which CompletePortion reads as the rest of the request has it.
inline constexpr Bytes kNoGpuMemory{-1};

/// --gpus: "2", "2..8", "0.25", "2x0.5".
Status ApplyGpus(std::string_view text, Request& request);
/// --gpu-limit, --gpu-memory-limit, --shared, --compute, --idle-park, --mps, --slice.
void AddPortionOptions(std::vector<Option>& table, JobSpec& spec);
/// What --slice takes, as a request has it: "1g.18gb", "1g", ">=16G".
Result<std::string> ReadSlice(std::string_view value);

/// Once all options are read: --gpu-memory 20G of a job that shares its GPUs is what it takes of them.
void CompletePortion(JobSpec& spec);
Status CheckPortion(const JobSpec& spec);

/// "a quarter": "0.25 of a GPU, up to 0.8". Empty: its GPUs are whole.
std::string PortionReading(const Request& request);

}  // namespace divvy::dialect
