// What the processes of each run use: CPU time, memory, disks.
//
// Whose a process is: that of the run under one of whose roots it descends. All of /proc is looked at every ten
// seconds, and in between only what is known and the children of its main threads, so that a machine with thousands of
// processes costs little.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "platform/gpu/use_probe.h"
#include "platform/os/proc_text.h"
#include "platform/os/rate.h"

namespace divvy {

class ProcessMeter {
 public:
  struct Use {
    std::optional<double> cpu_cores;
    double memory_bytes = 0;  // Resident; what processes share counts once.
    std::optional<double> read_bytes_per_second;
    std::optional<double> written_bytes_per_second;
  };

  /// `read_io`: reads what processes of others have read and written, for who may not look itself; null: we look.
  explicit ProcessMeter(ReadIo read_io = nullptr);

  /// By job. `seconds`: of a clock that only grows.
  std::map<std::uint64_t, Use> Look(const std::vector<UseTarget>& targets, double seconds);
  /// Of the look before; 0: none of the targets'.
  std::uint64_t JobOf(std::int64_t pid) const;
  /// Of one process, between the two looks before: its own time, without that of children; all that is resident.
  /// Nothing: none of the targets'.
  std::optional<Use> UseOf(std::int64_t pid) const;

 private:
  struct Counted {
    std::uint64_t ticks = 0;      // With those of children that it has waited for.
    std::uint64_t own_ticks = 0;  // Without.
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
    std::uint64_t ticks = 0;  // Never less than before: a process that leaves takes its own along.
    std::uint64_t read_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::map<std::int64_t, Counted> before;
    std::map<std::int64_t, Counted> long_before;  // One look earlier.
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
