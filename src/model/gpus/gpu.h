// One physical GPU: what it is (facts, from NVML) and how it is at this moment (an observation).
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

/// Pid and start time together name a process for ever: pids are used again.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  // /proc/PID/stat field 22: clock ticks since boot.

  friend auto operator<=>(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// What does not change while the daemon runs.
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
  /// The MIG instances that divvy may cut it into, smallest first. Empty: none.
  std::vector<SliceProfile> slices;
  bool is_only_sliced = false;  // Its MIG mode is on and stays so: it takes instances and no other work.
  /// links[j]: how GPU j is reached from this one: "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"; "X" for itself.
  std::vector<std::string> links;

  friend bool operator==(const GpuFacts&, const GpuFacts&) = default;
};

/// A process that uses a GPU, as NVML and /proc show it.
struct GpuProcess {
  ProcessIdentity identity;
  std::int64_t uid = -1;
  std::string user;     // Name of uid; "uid 1234" where it has none.
  std::string command;  // First 80 characters.
  Bytes memory_used;
  Time started = kNoTime;
  bool is_graphics = false;
  int gpu_instance = -1;  // Of MIG, by the driver's number; -1: none.
  /// The supervisor that this process descends from, or 0: then divvy did not start it.
  std::int64_t supervisor_pid = 0;
  std::uint64_t job = 0;  // The job of that supervisor, by its id; 0: not known.

  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

/// What one look at a GPU showed.
struct GpuObservation {
  GpuIndex index = 0;
  bool is_present = true;  // False: it fell off the bus, or NVML no longer answers for it.
  std::string fault;       // Empty when healthy; else the reason it must be fenced: "XID 79: ...".
  Bytes memory_used;
  int utilisation_percent = 0;  // -1: not known.
  int memory_utilisation_percent = 0;
  int temperature_celsius = 0;
  int power_watts = 0;
  std::vector<GpuProcess> processes;
  std::string cut_by_others;  // How it is divided by MIG, where that is not divvy's doing; empty: it is not.

  friend bool operator==(const GpuObservation&, const GpuObservation&) = default;
};

enum class GpuState { kFree, kAllocated, kUnmanaged, kRestricted, kFenced };

}  // namespace divvy
