// The GPUs of this machine as the driver shows them. A call may block for seconds in a sick driver, so a probe belongs
// to one worker thread and never to the loop.
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

  /// What every GPU is, by index. A GPU that is lost when the daemon starts is listed with its index alone, so that the
  /// others keep theirs.
  virtual Result<std::vector<GpuFacts>> Facts() = 0;

  /// One look at each GPU of `which`, by index; an index that does not exist is left out. With processes: everyone who
  /// uses the GPU, compute and graphics, by pid; `supervisors` holds the pids of divvy's own, the nearest of which
  /// among a process's ancestors (itself included) becomes its supervisor_pid.
  ///
  /// A fault stays until the driver says that the GPU was reset (or a lost one answers again), or ForgetFaults.
  virtual std::vector<GpuObservation> Observe(GpuSet which, bool with_processes,
                                              const std::set<std::int64_t>& supervisors) = 0;

  /// The operator says that these are well again, for drivers too old to tell (before R565).
  virtual void ForgetFaults(GpuSet which) = 0;

  /// "565.57.01"; empty where it is not known.
  virtual std::string driver() const = 0;
};

/// Loads NVML at run time. An empty `library_path` means the driver's own libnvidia-ml.so.1. `world_path` is the world
/// file of a stand-in library (WriteEmulation); empty: DIVVY_EMULATE, or the file beside the library.
///
/// kUnreachable when the library cannot be loaded or does not start (no driver): then there are no GPUs and everything
/// else works.
/// `slices`: where it is written which MIG instances are divvy's (slice_record.h); empty: none are.
Result<std::unique_ptr<GpuProbe>> OpenNvml(const std::string& library_path, const std::string& world_path = "",
                                           MigUse mig = MigUse::kOff, const std::string& slices = "");

}  // namespace divvy
