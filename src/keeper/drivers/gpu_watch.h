// What the driver says of the GPUs, looked at once a second by a thread of its own (a sick driver may hold a call for
// as long as it likes), and who of the processes that it names belongs to which tenant.
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
  int utilisation_percent = -1;  // -1: not known.
  struct Process {
    std::int64_t pid = 0;
    std::uint64_t start_ticks = 0;
    std::int64_t uid = -1;
    Bytes memory;
    int instance = -1;   // Of MIG; -1: none.
    std::string folder;  // DIVVY_SHARE of its environment; empty: none, or it may not be read.
    std::vector<std::int64_t> ancestors;
  };
  std::vector<Process> processes;
};

class GpuWatch {
 public:
  /// `library`: a stand-in for libnvidia-ml.so.1; empty: the driver's own. `seen` is called by the loop.
  GpuWatch(EventLoop& loop, std::string library, std::function<void(std::vector<GpuSight>)> seen);
  /// Does not wait for a call that hangs.
  ~GpuWatch();

  /// Looks from now on, at these. Nothing is looked at while there are none.
  void LookAt(GpuSet gpus);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace divvy::keeper
