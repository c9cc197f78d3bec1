// Describes the processes on a GPU: reads from /proc about the pids that NVML reports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "model/gpus/gpu.h"

namespace divvy {

/// The parts of /proc/PID/stat that identify a process.
struct GpuProcessStat {
  char state = '?';
  std::int64_t parent = 0;
  std::uint64_t start_ticks = 0;
  std::string name;
};

/// Reads the state of a process from /proc. Returns nullopt if there is no such process. A zombie is returned, with
/// state 'Z'.
std::optional<GpuProcessStat> ReadGpuProcessStat(std::int64_t pid);

/// Returns the process's real uid, or -1 if there is no such process.
std::int64_t UidOfProcess(std::int64_t pid);

/// Describes processes and remembers those of the last round. A process that ends just before it is described is still
/// shown with its old details as long as the driver lists it. Single-threaded.
class GpuProcessTable {
 public:
  GpuProcessTable();

  /// Describes the process `pid` from /proc, without the data that NVML has (memory, graphics). If the process is not
  /// in /proc any more, returns what an earlier call found, or else only the pid.
  GpuProcess Describe(std::int64_t pid, const std::set<std::int64_t>& supervisors);
  /// Call this after all processes were described once. Forgets those that were not described since the last call of
  /// EndRound.
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
