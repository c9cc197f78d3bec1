// Reads the driver's view of the GPUs once a second, on a separate thread because a faulty driver may block a call
// indefinitely. Also collects what is needed to attribute GPU processes to tenants.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "keeper/drivers/event_loop.h"
#include "model/gpus/gpu.h"

namespace divvy::keeper {

struct GpuSight {
  GpuIndex gpu = 0;
  Bytes memory_used;
  int utilisation_percent = -1;  // -1: unknown.
  struct Process {
    std::int64_t pid = 0;
    std::uint64_t start_ticks = 0;
    std::int64_t uid = -1;
    Bytes memory;
    int instance = -1;   // MIG instance; -1: none.
    std::string folder;  // DIVVY_SHARE from its environment. Empty: not set, or not readable.
    std::vector<std::int64_t> ancestors;
  };
  std::vector<Process> processes;
};

class GpuWatch {
 public:
  /// `library`: the path of a stand-in for libnvidia-ml.so.1; empty: the driver's own library. The loop's thread calls
  /// `seen` with each sample.
  GpuWatch(EventLoop& loop, std::string library, std::function<void(std::vector<GpuSight>)> seen);
  /// Ends the sampling. Does not wait for a driver call that blocks.
  ~GpuWatch();

  /// Sets the GPUs to sample. With an empty set, nothing is sampled.
  void LookAt(GpuSet gpus);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace divvy::keeper
