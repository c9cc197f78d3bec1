// A supervisor's knowledge of the job it watches, in memory shared with its guard. If the supervisor is killed, the
// guard continues from exactly this state. All members are plain values, each of which is valid at any moment.
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

/// Returns `now` + `wait`; `wait` may be negative. Returns kNeverDue if the sum would overflow.
Duration DueAfter(Duration now, Duration wait);

struct SupervisorWatch {
  std::uint64_t job = 0;  // 0: idle.
  std::uint32_t attempt = 0;

  pid_t first_process = 0;  // 0 before it exists, and once its end is in `code` and `signal`.
  bool has_first_ended = false;
  int code = 0;
  int signal = 0;
  /// The child that was reaped last. Written by the kernel in the call that reaps, so a kill cannot come in between.
  siginfo_t reaped = {};
  rusage reaped_usage = {};

  // Copied from the launch request.
  Time counts_from = kNoTime;  // Start of the time limit.
  WarnSignal warn;
  int stop_signal = SIGTERM;
  Duration grace{0};
  Duration leftover_grace{0};
  Duration time_limit{0};

  bool awaits_go = false;  // A gang's node allocation that has not started: the time limit does not count yet.
  bool ends_leftovers = false;
  bool is_stopping = false;
  bool hit_time_limit = false;
  bool was_cut_off = false;  // The node's lease stopped it.
  Duration cpu_time{0};
  long memory_peak_kib = 0;
  // Due times on the monotonic clock.
  Duration warn_at = kNeverDue;
  Duration limit_at = kNeverDue;
  Duration kill_at = kNeverDue;
  Duration look_at = kNeverDue;  // When to check whether the node allocation is ready.
  Duration kill_pause = kFirstKillPause;
  Duration lease_look_at = kNeverDue;
  // Due times of the lease, since boot (BootNow).
  Duration lease_end = kNeverDue;      // As read last.
  Duration lease_kill_at = kNeverDue;  // Set once the lease has ended.

  /// Reaps and records one child that has ended. Returns false if there is none now. `has_children` is set to false if
  /// no children are left.
  bool ReapOne(bool& has_children);
  /// Records the end of the first process if `reaped` is that process. Does nothing when called again.
  void NoteFirst();
};

/// Allocates memory shared with every process that is forked later, as long as one of them lives. Returns null if there
/// is no memory.
SupervisorWatch* MakeSharedWatch();

}  // namespace divvy
