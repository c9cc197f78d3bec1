// The runs whose use is measured (use_probe.h), and how the counters of their processes are read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/gpus/gpu.h"

namespace divvy {

/// A run on this machine whose use is measured separately.
struct UseTarget {
  std::uint64_t job = 0;
  /// The roots of its process trees: the supervisor, its guard, or an orphan's first process.
  std::vector<std::int64_t> roots;
  GpuSet gpus;
  /// True if the run has only GPU fractions: then its use is that of its processes. Otherwise it is that of its GPUs.
  bool has_parts = false;
  /// The run's fractions are MIG instances, whose use no driver reports: the use is unknown, not 0.
  bool has_slices = false;
  /// The run is paused: its inactivity is neither use nor idleness, so nothing is reported for it.
  bool is_paused = false;
  /// The run is parked: its GPU memory is on the host, and other jobs have its GPU time. So it neither uses nor wastes
  /// a GPU.
  bool is_parked = false;

  friend bool operator==(const UseTarget&, const UseTarget&) = default;
};

/// The bytes that a process has read from disks and written to them.
struct IoCounts {
  std::int64_t pid = 0;
  std::uint64_t read = 0;
  std::uint64_t written = 0;
};
/// Reads the I/O counters of other users' processes, for a caller that is not allowed to read them. Skips processes
/// that no longer exist.
using ReadIo = std::function<std::vector<IoCounts>(std::span<const std::int64_t> pids)>;

}  // namespace divvy
