// What divvy-burn does with the GPU: kernels of a given length, a few in flight, for a given GPU time.
#pragma once

#include <atomic>

#include "memory.h"
#include "options.h"

namespace divvy::burn {

/// Set by SIGTERM and SIGINT: end in order.
extern std::atomic<bool> is_told_to_end;

struct Outcome {
  double gpu_seconds = 0;
  double wall_seconds = 0;
  std::uint64_t kernels = 0;
  std::uint64_t checks = 0;
  std::uint64_t errors = 0;
};

/// Computes as the options say, checks `memory` (may be null) about each second and at the end.
Result<Outcome> Compute(const Driver& driver, const Kernels& kernels, const Options& options, Memory* memory);

/// Nanoseconds that a launch of an empty kernel takes, over `count` of them.
Result<double> MeasureLaunches(const Driver& driver, const Kernels& kernels, std::uint64_t count);

/// Between device memory and pinned host memory of `bytes`: the best of three times each way, in bytes a second.
struct CopyRates {
  double to_host = 0;
  double to_device = 0;
};
Result<CopyRates> MeasureCopies(const Driver& driver, std::uint64_t bytes);

/// Sleeps for so long, or until told to end; below 0: until told to end.
void Hold(double seconds);

}  // namespace divvy::burn
