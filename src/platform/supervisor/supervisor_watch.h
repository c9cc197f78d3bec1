// What a supervisor knows of the job it watches, in memory that it shares with its guard: so the guard can go on from
// exactly there when the supervisor is killed. Plain values, each of which is right at any moment.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>

#include "base/time.h"
#include "model/job.h"
#include "platform/os/clock.h"

namespace divvy {

constexpr Duration kNeverDue = Duration::max();
constexpr Duration kFirstKillPause = std::chrono::milliseconds(5);

/// `now` + `wait`, which may be negative; kNeverDue where that is beyond all time.
Duration DueAfter(Duration now, Duration wait);

struct SupervisorWatch {
  std::uint64_t job = 0;  // 0: idle.
  std::uint32_t attempt = 0;

  pid_t first_process = 0;  // 0 before it exists and once its end is in `code` and `signal`.
  bool has_first_ended = false;
  int code = 0;
  int signal = 0;
  /// The child that was reaped last. Written by the kernel in the call that reaps, so that no kill comes between.
  siginfo_t reaped = {};
  rusage reaped_usage = {};

  // As the launch had it.
  Time counts_from = kNoTime;  // Where the time limit counts from.
  WarnSignal warn;
  int stop_signal = SIGTERM;
  Duration grace{0};
  Duration leftover_grace{0};
  Duration time_limit{0};

  bool awaits_go = false;  // Of a part of a gang: the time limit does not count yet.
  bool ends_leftovers = false;
  bool is_stopping = false;
  bool hit_time_limit = false;
  bool was_cut_off = false;  // Stopped by its machine's lease.
  Duration cpu_time{0};
  long memory_peak_kib = 0;
  // Due times, monotonic.
  Duration warn_at = kNeverDue;
  Duration limit_at = kNeverDue;
  Duration kill_at = kNeverDue;
  Duration look_at = kNeverDue;  // Whether the part of a gang is ready.
  Duration kill_pause = kFirstKillPause;
  Duration lease_look_at = kNeverDue;
  // Of the lease, since boot (BootNow).
  Duration lease_end = kNeverDue;      // As it was read last.
  Duration lease_kill_at = kNeverDue;  // Once it has ended.

  /// Reaps one child that has ended and takes note of it; false when there is none now. `has_children`: false when
  /// there is none at all.
  bool ReapOne(bool& has_children);
  /// If `reaped` is the first process, its end is now known. Does nothing the second time.
  void NoteFirst();
};

/// Shared with every process that is forked later, for as long as one of them lives; null without memory.
SupervisorWatch* MakeSharedWatch();

}  // namespace divvy
