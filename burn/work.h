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

/// In bytes a second. Between device memory and pinned host memory: the best of three times each way. And how fast up
/// to eight threads write to host memory that nobody has had before, in huge pages where the machine has them: the
/// limit of parking. The first of two times is slower where a virtual machine's host has to find that memory.
struct CopyRates {
  double to_host = 0;
  double to_device = 0;
  double fresh_first = 0;
  double fresh_again = 0;
};
/// Of `bytes`.
Result<CopyRates> MeasureCopies(const Driver& driver, std::uint64_t bytes);

/// Sleeps for so long, or until told to end; below 0: until told to end.
void Hold(double seconds);

}  // namespace divvy::burn
