// What an administrator chooses about deciding.
#pragma once

#include "base/time.h"
#include "model/job.h"

namespace divvy::core {

/// Who is looked at first; each has a file of its own under order_*.cc.
enum class Order {
  kSmallFirst,  // Priority, escalated, fewer GPUs, longest wait.
  kFifo,        // Priority, longest wait.
  kFair,        // Team below quota, least served team, the team that used least lately, then as kSmallFirst.
  kShortest,    // Priority, predicted GPU time with ageing.
};

/// What may start behind a job that is blocked.
enum class Backfill {
  kReserved,  // What delays no reservation.
  kNone,      // Nothing: strict order.
  kAnything,  // Whatever fits, without any reservation. For comparison: it starves large jobs.
};

/// How the jobs of one pool stand in line.
struct PoolRules {
  Order order = Order::kSmallFirst;
  Duration escalate_after = std::chrono::hours(1);  // Valohai's figure; 0: never.
  /// kShortest: a job that waits so long counts as shorter by its own predicted length.
  double ageing = 1.0;
  /// kFair: inside a team by priority and wait; else small jobs first as in kSmallFirst.
  bool fair_is_fifo = false;
  int tier = 0;  // Where pools share nodes, jobs of a higher one go first.

  friend bool operator==(const PoolRules&, const PoolRules&) = default;
};

/// Those of all pools, and of the pool that needs no name.
struct Rules : PoolRules {
  Backfill backfill = Backfill::kReserved;
  /// Ends of running jobs without a time limit are taken from predictions, for plans and estimates.
  bool uses_predictions = true;

  /// Jobs without GPUs wait for no GPU job: the CPUs and memory that are held for one do not bind them.
  bool cpu_jobs_pass = false;

  // Taking back.
  bool reclaims = false;      // Between teams: what a team holds beyond its share, for one below its own.
  bool preempts = false;      // Inside a team: from lower priority.
  bool consolidates = false;  // Running work is moved so that a larger job fits.
  Duration least_run{0};      // A job that started more recently is not taken from.
  Duration patience{0};       // A job takes only after it has waited so long.
  Duration grace = std::chrono::seconds(30);  // From the decision to the moment when the GPUs are free.

  friend bool operator==(const Rules&, const Rules&) = default;
};

}  // namespace divvy::core
