// The sampled quantities: names and units as in the API, and the precision of storage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace divvy::samples {

/// The numbers must never change, because blocks on disk contain them.
enum class Metric : std::uint8_t {
  kGpuUtilization = 0,        // Fraction of time in which a kernel ran.
  kGpuMemoryUtilization = 1,  // Fraction of time in which memory was read or written.
  kGpuSmActivity = 2,         // Activity of all multiprocessors, where the driver reports it.
  kGpuMemoryUsed = 3,
  kGpuPower = 4,
  kGpuTemperature = 5,
  kGpuSmClock = 6,
  kGpuMemoryClock = 7,
  kGpuThrottle = 8,  // Bit mask of NVML's throttle reasons.
  kGpuPcieReceived = 9,
  kGpuPcieSent = 10,
  kGpuNvlinkReceived = 11,
  kGpuNvlinkSent = 12,
  kGpuEccErrors = 13,  // Uncorrected errors since the driver was loaded.
  kGpuXid = 14,        // The newest Xid error reported by the driver; 0: none.
  kCpuCores = 15,      // CPU time per second, in cores.
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
  kGpuMemoryMost = 27,      // For a job with several GPUs of a node: memory on the GPU where it uses most.
  kGpuTensorActivity = 28,  // Activity of the tensor cores, where the driver reports it.
  kTeamShare = 29,          // GPUs that a team is entitled to, by its weight and its demand.
  kTeamQuota = 30,
  kTeamLimit = 31,
  kOwnLinesLeftOut = 32,  // Lines of a job's own metrics dropped, because they exceed the limit per second.
  kOwnNamesLeftOut = 33,  // Names of a job's own metrics dropped, because they exceed the limit.
};
inline constexpr std::size_t kMetrics = 34;

/// How several values are combined into one.
enum class Fold : std::uint8_t {
  kMean,  // Mean, with the least and the greatest.
  kBits,  // All bits that were set.
  kLast,  // The newest.
};

/// How values of a job's parts are combined.
enum class Join : std::uint8_t { kMean, kSum, kMost };

struct MetricFacts {
  std::string_view name;  // "gpu_utilization"
  std::string_view unit;  // "ratio"
  double quantum = 1;     // Stored values are integer multiples of it.
  Fold fold = Fold::kMean;
  Join join = Join::kSum;
};

const MetricFacts& FactsOf(Metric metric);
std::optional<Metric> MetricByName(std::string_view name);

/// Prefix of metrics that a job reports itself, e.g. "own.loss".
inline constexpr std::string_view kOwnPrefix = "own.";

}  // namespace divvy::samples
