// Who uses a GPU: what /proc tells about a pid that NVML names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "model/gpus/gpu.h"

namespace divvy {

/// The parts of /proc/PID/stat that say which process this is.
struct GpuProcessStat {
  char state = '?';
  std::int64_t parent = 0;
  std::uint64_t start_ticks = 0;
  std::string name;
};

/// Nothing when there is no such process (zombies are still there, with state 'Z').
std::optional<GpuProcessStat> ReadGpuProcessStat(std::int64_t pid);

/// Its real user; -1 when there is no such process.
std::int64_t UidOfProcess(std::int64_t pid);

/// Describes processes and remembers those of the last round: a process that ends just before it is looked at is still
/// shown as who it was, for as long as the driver lists it. One thread.
class GpuProcessTable {
 public:
  GpuProcessTable();

  /// The process `pid` without what NVML knows of it (memory, graphics). Where /proc does not show it: what the last
  /// round knew, else the pid alone.
  GpuProcess Describe(std::int64_t pid, const std::set<std::int64_t>& supervisors);
  /// Ends a round: what was not described since the last call is forgotten.
  void EndRound();

 private:
  const std::string& UserName(std::int64_t uid);

  struct Remembered {
    GpuProcess process;
    bool is_current = false;
  };
  std::map<std::int64_t, Remembered> known_;
  std::map<std::int64_t, std::string> user_names_;
  Duration boot_time_;  // Since 1970.
  Duration tick_;
};

}  // namespace divvy
