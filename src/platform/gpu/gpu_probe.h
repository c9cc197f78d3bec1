// The GPUs of this machine as the driver reports them. With a faulty driver a call may block for seconds, so a probe
// belongs to one worker thread and never to the event loop.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"

namespace divvy {

class GpuProbe {
 public:
  virtual ~GpuProbe() = default;

  /// Returns the facts of every GPU, by index. A GPU that is lost when the daemon starts is listed with only its index,
  /// so that the others keep theirs.
  virtual Result<std::vector<GpuFacts>> Facts() = 0;

  /// Checks each GPU of `which` once; returns the results by index and skips indices that do not exist.
  /// `with_processes`: also lists all compute and graphics processes on each GPU, by pid. `supervisors` holds the pids
  /// of divvy's supervisors. If the process or one of its ancestors is a supervisor, the nearest one becomes its
  /// supervisor_pid.
  ///
  /// A fault persists until the driver reports that the GPU was reset (or a lost one answers again), or until
  /// ForgetFaults.
  virtual std::vector<GpuObservation> Observe(GpuSet which, bool with_processes,
                                              const std::set<std::int64_t>& supervisors) = 0;

  /// Clears the faults of these GPUs, because the operator has declared them healthy. Needed for drivers before R565,
  /// which do not report that a GPU was reset.
  virtual void ForgetFaults(GpuSet which) = 0;

  /// The driver's version, such as "565.57.01"; empty if unknown.
  virtual std::string driver() const = 0;
};

/// Loads NVML at run time. An empty `library_path` means the driver's own libnvidia-ml.so.1. `world_path` is the world
/// file of a stand-in library (WriteEmulation); if empty, DIVVY_EMULATE or the file next to the library is used.
/// `slices`: the folder of the record of divvy's own MIG instances (slice_record.h); empty: none are divvy's.
///
/// kUnreachable if the library cannot be loaded or does not start (no driver): then there are no GPUs, and everything
/// else works.
Result<std::unique_ptr<GpuProbe>> OpenNvml(const std::string& library_path, const std::string& world_path = "",
                                           MigUse mig = MigUse::kOff, const std::string& slices = "");

}  // namespace divvy
