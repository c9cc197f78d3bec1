// Measures how the GPUs, processors, memory and disks of this machine are used, and by which runs, from NVML and /proc
// over one second. With a faulty driver a call may block for seconds, so a probe belongs to one worker thread and never
// to the event loop. It has its own NVML, so that it does not delay health checks of the GPUs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/gpu/use_target.h"
#include "samples/sample.h"

namespace divvy {

class UseProbe {
 public:
  virtual ~UseProbe() = default;

  /// Returns the samples of one second for this machine, whose name is `node`: of its GPUs and MIG instances, of the
  /// machine itself, and of each run in `targets`. Rates cover the time since the last call; the first call has none.
  /// Data that the driver or the kernel does not report is left out.
  virtual samples::Snapshot Look(samples::Second at, const std::string& node,
                                 const std::vector<UseTarget>& targets) = 0;
};

/// Opens a probe with the parameters of OpenNvml (gpu_probe.h). Always succeeds: without a driver its samples contain
/// no GPUs. If `library_path` is empty and `has_gpus` is false, NVML is not loaded. `read_io`: see ProcessMeter.
std::unique_ptr<UseProbe> OpenUseProbe(bool has_gpus, const std::string& library_path,
                                       const std::string& world_path = "", ReadIo read_io = nullptr);

}  // namespace divvy
