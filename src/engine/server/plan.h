// What a decision says.
#pragma once

#include <vector>

#include "engine/server/facts.h"

namespace divvy {

struct StartDecision {
  JobId entry;
  NodeIndex node = kOwnNode;
  GpuSet gpus;
  GpuShare share{GpuShare::kWhole};  // Of each of `gpus`.
  GpuSlice slice;                    // Of `gpus`, which is one then.
  /// Of a job on several machines: all of them, in the order of its ranks; the first is `node`. Empty: it is on one.
  /// Of a heterogeneous job never empty.
  std::vector<NodePlace> gang;
  /// For people and for the record: "first in line", "backfilled: ends before job 9 starts in 2 h".
  Reason reason;
  std::string pool = {};  // In which of its pools; empty: it asked for none.
};

/// A start time held for a job; nobody else may use these GPUs from `start` on.
struct Reservation {
  JobId entry;
  Time start = kNever;  // kNever: it drains these GPUs, whose ends nobody knows.
  std::vector<NodePlace> places;
  bool is_claim = false;  // What of it is not free was asked back, or taken, for this job.
};

/// A running job is to end, because another has more right to what it holds. Its GPUs stay its own until Finish.
struct Taking {
  JobId job;
  JobId taker;    // Who starts in its place.
  Reason reason;  // "makes room for job 12".
};

/// An elastic job that runs has other GPUs from now on, or is to give some back.
struct Resizing {
  JobId job;
  GpuSet gpus;        // All that it has.
  GpuSet asked_back;  // Of them: what it is to give back at its own time. Its own until Server::Resize says so.
  /// It has not answered for so long that it is not asked any more, nor given any, before it takes part again.
  bool is_silent = false;
  Reason reason;  // "GPU 3 is idle", "job 12 waits for GPUs 2 and 3".
};

struct Plan {
  std::vector<StartDecision> starts;  // In the order decided.
  std::vector<Taking> takings;
  std::vector<Resizing> resizings;  // The last word of each job, by id.
  std::vector<Reservation> reservations;
  /// When the clock alone can change the plan (a begin time, an escalation); kNever: only an event can.
  Time next_wakeup = kNever;
};

/// A plan that has been applied.
struct Decided {
  Plan plan;
  std::vector<JobId> jobs;  // jobs[i] runs by plan.starts[i].
};

}  // namespace divvy
