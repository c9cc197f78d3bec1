// One physical GPU: its constant properties (facts, from NVML) and its current state (an observation).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "base/units.h"
#include "model/gpus/gpu_set.h"
#include "model/gpus/gpu_slice.h"

namespace divvy {

/// Pid and start time together identify a process permanently, although pids are reused.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  // /proc/PID/stat field 22: clock ticks since boot.

  friend auto operator<=>(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Properties that do not change while the daemon runs.
struct GpuFacts {
  GpuIndex index = 0;
  std::string uuid;
  std::string model;  // As NVML names it: "NVIDIA H100 80GB HBM3".
  Bytes memory_total;
  std::string pci_address;     // 00000000:17:00.0
  int numa_node = -1;          // -1: not known.
  int compute_capability = 0;  // 90 is 9.0.
  bool is_mig_capable = false;
  bool is_mig_enabled = false;
  /// The MIG instances that divvy may create on it, smallest first. Empty: none.
  std::vector<SliceProfile> slices;
  bool is_only_sliced = false;  // Its MIG mode stays on: it accepts only jobs that request MIG instances.
  /// links[j]: how GPU j is reached from this one: "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"; "X" for itself.
  std::vector<std::string> links;

  friend bool operator==(const GpuFacts&, const GpuFacts&) = default;
};

/// A process that uses a GPU, as NVML and /proc show it.
struct GpuProcess {
  ProcessIdentity identity;
  std::int64_t uid = -1;
  std::string user;     // Name of uid; "uid 1234" if there is none.
  std::string command;  // First 80 characters.
  Bytes memory_used;
  Time started = kNoTime;
  bool is_graphics = false;
  int gpu_instance = -1;  // The driver's number of its MIG instance. -1: none.
  /// The supervisor that this process descends from. 0: divvy did not start the process.
  std::int64_t supervisor_pid = 0;
  std::uint64_t job = 0;  // Id of the supervisor's job. 0: not known.

  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

/// The result of one observation of a GPU.
struct GpuObservation {
  GpuIndex index = 0;
  bool is_present = true;  // False: it fell off the bus, or NVML no longer answers for it.
  std::string fault;       // Why the GPU must be fenced: "XID 79: ...". Empty if it is healthy.
  Bytes memory_used;
  int utilisation_percent = 0;  // -1: not known.
  int memory_utilisation_percent = 0;
  int temperature_celsius = 0;
  int power_watts = 0;
  std::vector<GpuProcess> processes;
  std::string cut_by_others;  // How it is divided by MIG, if divvy did not do that. Empty: it is not.

  friend bool operator==(const GpuObservation&, const GpuObservation&) = default;
};

}  // namespace divvy
