// The GPU work of divvy-burn: kernels of a given length, a few of them in flight, for a given GPU time.
#pragma once

#include <atomic>

#include "memory.h"
#include "options.h"

namespace divvy::burn {

/// Set by SIGTERM and SIGINT, to end cleanly.
extern std::atomic<bool> is_told_to_end;

struct Outcome {
  double gpu_seconds = 0;
  double wall_seconds = 0;
  std::uint64_t kernels = 0;
  std::uint64_t checks = 0;
  std::uint64_t errors = 0;
};

/// Runs the computation given by `options`. Checks `memory` (may be null) about once a second and at the end.
Result<Outcome> Compute(const Driver& driver, const Kernels& kernels, const Options& options, Memory* memory);

/// Returns the mean duration of an empty kernel's launch in nanoseconds, over `count` launches.
Result<double> MeasureLaunches(const Driver& driver, const Kernels& kernels, std::uint64_t count);

/// Copy rates in bytes per second. `to_host` and `to_device` are the best of three copies between device memory and
/// pinned host memory. `fresh_*` is the rate at which up to eight threads write to newly allocated host memory, in huge
/// pages where available; it limits parking. The first of two runs is slower if a virtual machine's host must allocate
/// the memory.
struct CopyRates {
  double to_host = 0;
  double to_device = 0;
  double fresh_first = 0;
  double fresh_again = 0;
};
/// Measures how fast `bytes` bytes are copied between host and GPU.
Result<CopyRates> MeasureCopies(const Driver& driver, std::uint64_t bytes);

/// Sleeps for `seconds`, or until a signal. Negative: until a signal.
void Hold(double seconds);

}  // namespace divvy::burn
