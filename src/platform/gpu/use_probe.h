// Measures how the GPUs, processors, memory and disks of this machine are used, and by which runs, from NVML and /proc
// over one second. With a faulty driver a call may block for seconds, so a probe belongs to one worker thread and never
// to the event loop. It has its own NVML, so that it does not delay health checks of the GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "samples/sample.h"

namespace divvy {

/// A run on this machine whose use is measured separately.
struct UseTarget {
  std::uint64_t job = 0;
  /// The roots of its process trees: the supervisor, its guard, or an orphan's first process.
  std::vector<std::int64_t> roots;
  GpuSet gpus;
  /// True if it has only GPU fractions: then its use is that of its processes; otherwise it is that of its GPUs.
  bool has_parts = false;
  /// Its fractions are MIG instances, whose use no driver reports: it is unknown, not 0.
  bool has_slices = false;
  /// It is paused: its inactivity is neither use nor idleness, so nothing is reported for it.
  bool is_paused = false;
  /// Its tenant is parked: its memory is on the host and others have its GPU time, so it neither uses nor wastes a GPU.
  bool is_parked = false;

  friend bool operator==(const UseTarget&, const UseTarget&) = default;
};

/// The bytes that a process has read from disks and written to them.
struct IoCounts {
  std::int64_t pid = 0;
  std::uint64_t read = 0;
  std::uint64_t written = 0;
};
/// Reads these counters of other users' processes, for a caller that may not. Skips processes that no longer exist.
using ReadIo = std::function<std::vector<IoCounts>(std::span<const std::int64_t> pids)>;

class UseProbe {
 public:
  virtual ~UseProbe() = default;

  /// Returns one second of all data under the name `node`: its GPUs and MIG instances, the node itself, and each run.
  /// Rates cover the time since the last call; the first call has none. Data that the driver or the kernel does not
  /// report is left out.
  virtual samples::Snapshot Look(samples::Second at, const std::string& node,
                                 const std::vector<UseTarget>& targets) = 0;
};

/// Same parameters as OpenNvml (gpu_probe.h), but always succeeds: without a driver its results contain no GPUs. With
/// an empty `library_path` and `has_gpus` false, NVML is not searched. `read_io`: see ProcessMeter.
std::unique_ptr<UseProbe> OpenUseProbe(bool has_gpus, const std::string& library_path,
                                       const std::string& world_path = "", ReadIo read_io = nullptr);

}  // namespace divvy
