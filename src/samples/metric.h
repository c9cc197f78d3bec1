// The quantities that are sampled: their names and units as the API has them, and how exact they are kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace divvy::samples {

/// A number each, for ever: blocks on disk have them.
enum class Metric : std::uint8_t {
  kGpuUtilization = 0,        // Time in which any kernel ran.
  kGpuMemoryUtilization = 1,  // Time in which memory was read or written.
  kGpuSmActivity = 2,         // Of all multiprocessors; where the driver has it.
  kGpuMemoryUsed = 3,
  kGpuPower = 4,
  kGpuTemperature = 5,
  kGpuSmClock = 6,
  kGpuMemoryClock = 7,
  kGpuThrottle = 8,  // Bits of NVML's reasons.
  kGpuPcieReceived = 9,
  kGpuPcieSent = 10,
  kGpuNvlinkReceived = 11,
  kGpuNvlinkSent = 12,
  kGpuEccErrors = 13,  // Uncorrected, since the driver began.
  kGpuXid = 14,        // The newest error that the driver reported; 0: none.
  kCpuCores = 15,      // Cores' worth of CPU time.
  kCpuUtilization = 16,
  kMemoryUsed = 17,
  kIoRead = 18,
  kIoWritten = 19,
  kNetworkReceived = 20,
  kNetworkSent = 21,
  kGpusTotal = 22,
  kGpusAllocated = 23,
  kGpusUsed = 24,  // Sum of utilisations.
  kJobsQueued = 25,
  kJobsRunning = 26,
  kGpuMemoryMost = 27,      // Of a job on several GPUs of a machine: on the one where it uses most.
  kGpuTensorActivity = 28,  // Of the tensor cores; where the driver has it.
  kTeamShare = 29,          // The GPUs that are a team's by its weight and what it wants.
  kTeamQuota = 30,
  kTeamLimit = 31,
  kOwnLinesLeftOut = 32,  // Of what a job says of itself, beyond what is read of it in a second.
  kOwnNamesLeftOut = 33,  // Beyond those that are kept.
};
inline constexpr std::size_t kMetrics = 34;

/// How many values become one.
enum class Fold : std::uint8_t {
  kMean,  // Mean, with the least and the greatest.
  kBits,  // All bits that were set.
  kLast,  // The newest.
};

/// How the same quantity of several parts of a job becomes the job's.
enum class Join : std::uint8_t { kMean, kSum, kMost };

struct MetricFacts {
  std::string_view name;  // "gpu_utilization"
  std::string_view unit;  // "ratio"
  double quantum = 1;     // Kept values are whole multiples of it.
  Fold fold = Fold::kMean;
  Join join = Join::kSum;
};

const MetricFacts& FactsOf(Metric metric);
std::optional<Metric> MetricByName(std::string_view name);

/// What a job says of itself begins so: "own.loss".
inline constexpr std::string_view kOwnPrefix = "own.";

}  // namespace divvy::samples
