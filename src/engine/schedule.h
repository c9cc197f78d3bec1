// The decision itself: who starts now, on which GPUs, and what is held for whom. A function: the same cluster, policy
// and `now` give the same plan; ties go to the lowest id.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/cluster.h"

namespace divvy {

struct StartDecision {
  JobId entry;
  GpuSet gpus;
  /// For people and for the record: "first in line", "backfilled: ends before job 9's reservation at 14:05".
  Reason reason;
};

/// A start time held for a job; nobody else may use `gpus` from `start` on.
struct Reservation {
  JobId entry;
  Time start = kNever;  // kNever: it drains these GPUs, whose ends nobody knows.
  GpuSet gpus;
};

struct Plan {
  std::vector<StartDecision> starts;  // In the order decided.
  std::vector<Reservation> reservations;
  /// When the clock alone can change the plan (a begin time, an escalation); kNever: only an event can.
  Time next_wakeup = kNever;
};

/// One pass. Starts as many as fit, in the policy's order:
///
///   small-first: priority (higher first), escalated (waits >= escalate_after; oldest first), fewer GPUs, since, id
///   fifo:        priority, since, id
///
/// where `since` is the later of queued_at and begin. The first blocked job holds a reservation where the ends it needs
/// are known; every escalated job holds one in any case, in either policy (without known ends it drains the GPUs that
/// free first), at most kMostReservations in all (planner.h). Others start only if they make no reservation of a job
/// before them later, counted GPU by GPU; a reservation may move to other GPUs that serve it as early. Jobs without
/// GPUs wait for no GPU job. A job whose cap is full, or that the GPUs usable now could not serve even when idle, holds
/// nothing and is passed. The plan is final: with its starts applied, a second pass at `now` starts nobody.
///
/// An elastic job starts with at least Request::gpus; what is idle once nobody more can start goes to the elastic jobs
/// that start in this pass, in their order, up to gpus_most each, where it makes no reservation later.
///
/// Cost: O(classes x log classes + starts), and a look at the timeline per reservation.
/// Source: EASY backfill (Lifka 1995) generalised to sets of GPUs; order and escalation as Valohai documents them. The
/// rules with an example: docs/scheduling.md.
Plan Schedule(const Cluster& cluster, const Policy& policy, Time now);

enum class BlockerKind {
  kHeld,
  kBeginTime,
  kDependency,
  kGroupLimit,
  kGpus,
  kGpuType,
  kCpus,
  kMemory,
  kCpuJobs,
  kReservation,
  kInfeasible,
  kTopology  // GPUs enough, but not joined as it requires.
};

/// One thing that holds a job back, with its numbers.
struct Blocker {
  BlockerKind kind = BlockerKind::kGpus;
  std::string text;         // "needs 4 GPUs, 2 are free"; complete without the other fields.
  std::int64_t needed = 0;  // In the unit of the thing: GPUs, CPUs, bytes, jobs.
  std::int64_t available = 0;
  struct Holder {
    JobId job;
    std::string name;
    std::string user;
    GpuSet gpus;
    Time until = kNever;  // kNever: nobody knows.
  };
  std::vector<Holder> holders;  // Who has what is missing, soonest end first.
  std::string rule;             // The rule or setting behind it: "array cap %2", "reservation of job 9".
};

struct Explanation {
  bool is_waiting = false;
  std::uint64_t position = 0;     // 1: the next to be looked at; 0: not in line (held, dependency, begin time).
  std::uint64_t ahead_gpus = 0;   // GPUs wanted by those ahead.
  std::string key;                // The order it stands in: "priority 0, escalated, 4 GPUs, waiting 1 h 5 min".
  std::vector<Blocker> blockers;  // Every one, the hardest first.
  Time predicted_start = kNever;  // kNever: nothing known makes it start.
  std::string prediction_basis;   // "when job 12 (limit 2 h) and job 14 end", or why there is none.
  std::string would_start_now;    // The smallest change that would: "--gpus 2 (GPUs 3 and 5 are free)"; or "".
};

/// The same code that refused, asked about one entry. For a job that is not waiting, is_waiting is false.
Explanation Explain(const Cluster& cluster, const Policy& policy, JobId entry, Time now);

/// Refuses what this node could never run, naming the nearest thing that it can ("asks for 9 GPUs; this server has 8:
/// --gpus 8 is the most"). Counts restricted and fenced GPUs as present (they may come back). No GPUs at all: says so.
Status CheckFeasible(const Cluster& cluster, const Request& request);

/// Every waiting entry in the order in which it will be looked at, those not in line last; at most `limit` (0: all).
std::vector<JobId> QueueOrder(const Cluster& cluster, const Policy& policy, Time now, std::size_t limit);

}  // namespace divvy
