// Scheduling rules that the administrator chooses.
#pragma once

#include "base/time.h"
#include "engine/policy.h"
#include "model/job.h"

namespace divvy::core {

/// Which jobs may start behind a blocked job.
enum class Backfill {
  kReserved,  // Jobs that delay no reservation.
  kNone,      // None: strict queue order.
  kAnything,  // Any job that fits, without reservations. For comparison only: large jobs starve.
};

/// After this time in the queue, GPUs may be reserved for a job even if it is not certain when they become free. So no
/// job waits indefinitely, unless jobs of its pool never get precedence by waiting (PoolRules::escalate_after).
inline constexpr Duration kWaitsUnsurelyAfter = std::chrono::days(14);

/// The queue rules of one pool.
struct PoolRules {
  QueuePolicy order = QueuePolicy::kSmallFirst;
  Duration escalate_after = std::chrono::hours(1);  // Valohai's figure; 0: never.
  /// For kShortest: how many GPU-seconds each second of waiting takes off a job's predicted GPU time.
  double ageing = 1.0;
  /// For kFair: inside a team, orders by priority and wait only; otherwise small jobs first as in kSmallFirst.
  bool fair_is_fifo = false;
  int tier = 0;  // If pools share nodes, jobs of a higher tier go first.

  friend bool operator==(const PoolRules&, const PoolRules&) = default;
};

/// Rules of all pools; the inherited part applies to the default pool.
struct Rules : PoolRules {
  Backfill backfill = Backfill::kReserved;
  /// Plans and estimates use the predicted end of running jobs without a time limit.
  bool uses_predictions = true;

  /// Jobs without GPUs ignore the CPUs and memory that are reserved for GPU jobs.
  bool cpu_jobs_pass = false;

  // Preemption, reclaim and consolidation.
  bool reclaims = false;      // Between teams: takes what a team holds beyond its share, for a team below its own
                              // share.
  bool preempts = false;      // Within a team: takes from jobs of lower priority.
  bool consolidates = false;  // Migrates running jobs so that a larger job fits.
  Duration min_runtime{0};    // Jobs that started more recently are not preempted.
  Duration wait_before{0};    // A job preempts only after it has waited this long.
  Duration grace = std::chrono::seconds(30);  // From the decision until the GPUs are free.

  friend bool operator==(const Rules&, const Rules&) = default;
};

}  // namespace divvy::core
