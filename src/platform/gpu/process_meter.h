// Measures what the processes of each run use: CPU time, memory, disks.
//
// A process belongs to the run of whose roots it is a descendant. All of /proc is scanned every ten seconds. In
// between, only known processes and the children of their main threads are read, so a machine with thousands of
// processes costs little.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "platform/gpu/use_target.h"
#include "platform/os/proc_text.h"
#include "platform/os/rate.h"

namespace divvy {

class ProcessMeter {
 public:
  struct Use {
    std::optional<double> cpu_cores;
    double memory_bytes = 0;  // Resident memory; memory that processes share counts once.
    std::optional<double> read_bytes_per_second;
    std::optional<double> written_bytes_per_second;
  };

  /// `read_io` reads the I/O counters of other users' processes, if this process is not allowed to read them. Null:
  /// this object reads them itself.
  explicit ProcessMeter(ReadIo read_io = nullptr);

  /// Returns how much CPU, memory and disk the processes of these targets use, by job. `seconds`: the time of the call,
  /// by a monotonic clock.
  std::map<std::uint64_t, Use> Look(const std::vector<UseTarget>& targets, double seconds);
  /// Returns the job to which the process belonged at the last call of Look; 0 if it belonged to none of the targets.
  std::uint64_t JobOf(std::int64_t pid) const;
  /// Returns the use of one process between the last two calls of Look: its own CPU time without its children's, and
  /// all its resident memory. Returns nullopt if the process belongs to none of the targets.
  std::optional<Use> UseOf(std::int64_t pid) const;

 private:
  struct Counted {
    std::uint64_t ticks = 0;      // Includes the children that it has waited for.
    std::uint64_t own_ticks = 0;  // Without these children.
    std::uint64_t own_bytes = 0;
    std::uint64_t shared_bytes = 0;
    std::uint64_t read = 0;
    std::uint64_t written = 0;
    bool has_io = false;
  };
  struct Meters {
    Rate cpu;
    Rate read;
    Rate written;
    std::uint64_t ticks = 0;  // Never decreases, although a process that ends takes its own ticks along.
    std::uint64_t read_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::map<std::int64_t, Counted> before;
    std::map<std::int64_t, Counted> long_before;  // One call of Look earlier.
  };
  void Scan(const std::vector<UseTarget>& targets);
  void AddChildren();
  bool Count(std::int64_t pid, Counted& out);
  void CountIo(std::map<std::uint64_t, std::map<std::int64_t, Counted>>& counted);

  std::map<std::int64_t, std::uint64_t> jobs_;  // By pid.
  std::map<std::uint64_t, Meters> meters_;      // By job.
  std::vector<UseTarget> scanned_for_;
  double scanned_at_ = 0;
  double looked_at_ = 0;
  double between_looks_ = 0;  // Seconds.
  double ticks_per_second_;
  std::uint64_t page_;
  ProcText text_;
  ReadIo read_io_;
};

}  // namespace divvy
