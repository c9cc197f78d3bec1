// How the GPUs, the processors, the memory and the disks of this machine are used, by whom: what NVML and /proc show in
// one second. A call may block for seconds in a sick driver, so a probe belongs to one worker thread and never to the
// loop. It keeps NVML of its own, so that it holds up no look at the GPUs' health.
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

/// A run on this machine, whose use is to be told from that of others.
struct UseTarget {
  std::uint64_t job = 0;
  /// Its processes are these and their descendants: the supervisor, its guard, or an orphan's first process.
  std::vector<std::int64_t> roots;
  GpuSet gpus;
  /// It has parts of them only: then its use is that of its processes, else that of its GPUs.
  bool has_parts = false;
  /// These parts are MIG instances, whose use no driver tells: it is unknown, not 0.
  bool has_slices = false;
  /// It stands still by order: what it does not do then is neither use nor idleness, so nothing is said of it.
  bool is_paused = false;
  /// Its part is parked: its memory is on the host and others have its time, so of a GPU it neither uses nor wastes.
  bool is_parked = false;

  friend bool operator==(const UseTarget&, const UseTarget&) = default;
};

/// What a process has read from disks and written to them, in bytes.
struct IoCounts {
  std::int64_t pid = 0;
  std::uint64_t read = 0;
  std::uint64_t written = 0;
};
/// Tells that of others' processes, for who may not look; those that do not exist any more are left out.
using ReadIo = std::function<std::vector<IoCounts>(std::span<const std::int64_t> pids)>;

class UseProbe {
 public:
  virtual ~UseProbe() = default;

  /// One second of everything, under the name `node`: its GPUs and MIG instances, itself, and each run. Rates are those
  /// since the look before; at the first one there are none. What the driver or the kernel does not tell is left out.
  virtual samples::Snapshot Look(samples::Second at, const std::string& node,
                                 const std::vector<UseTarget>& targets) = 0;
};

/// As OpenNvml (gpu_probe.h), but always succeeds: without a driver there are no GPUs in what it shows. An empty
/// `library_path` with `has_gpus` false: NVML is not looked for.
/// `read_io`: as ProcessMeter's.
std::unique_ptr<UseProbe> OpenUseProbe(bool has_gpus, const std::string& library_path,
                                       const std::string& world_path = "", ReadIo read_io = nullptr);

}  // namespace divvy
