// The result of a decision: starts, preemptions, resizings and reservations.
#pragma once

#include <vector>

#include "engine/scheduler/facts.h"

namespace divvy {

struct StartDecision {
  JobId entry;
  NodeIndex node = kOwnNode;
  GpuSet gpus;
  GpuShare share{GpuShare::kWhole};  // The fraction that the job holds of each of `gpus`.
  GpuSlice slice;                    // Optional. The MIG instance; `gpus` is a single GPU then.
  /// For jobs on several nodes: all of them, in rank order; the first is `node`. Empty: the job is on one node. Never
  /// empty for a heterogeneous job.
  std::vector<NodeResources> gang;
  /// For users and for the job's record: "first in line", "backfilled: ends before job 9 starts in 2 h".
  Reason reason;
  std::string pool = {};  // The requested pool in which it starts; empty if it requested none.
};

/// GPUs and a start time reserved for a waiting job. No other job may use these GPUs from `start` on.
struct Reservation {
  JobId entry;
  Time start = kNever;  // kNever: the job waits for these GPUs to drain and no end is known.
  std::vector<NodeResources> places;
  bool is_nomination = false;  // Those of its GPUs that are not free were asked back or preempted for this job.
};

/// A running job must end because another job has precedence for its resources. It holds its GPUs until Finish.
struct Preemption {
  JobId job;
  JobId preemptor;  // The job for which it is preempted.
  Reason reason;    // "makes room for job 12".
};

/// A running elastic job has a different set of GPUs from now on, or is asked to give some back.
struct Resizing {
  JobId job;
  GpuSet gpus;        // All GPUs that it holds.
  GpuSet asked_back;  // The subset of `gpus` that it is to give back. It holds them until Scheduler::Resize.
  /// It has not answered for too long. It is neither asked nor given GPUs until it accepts resizing again.
  bool is_silent = false;
  Reason reason;  // "GPU 3 is idle", "job 12 waits for GPUs 2 and 3".
};

/// A running job is to be parked, so that a newcomer starts on its GPUs. It holds them until Scheduler::SetDisplaced.
struct Parking {
  JobId job;
  JobId newcomer;
};

struct Plan {
  std::vector<StartDecision> starts;  // In the order decided.
  std::vector<Preemption> preemptions;
  std::vector<Parking> parkings;
  std::vector<Resizing> resizings;  // The final state of each resized job, sorted by id.
  std::vector<Reservation> reservations;
  /// When the clock alone can change the plan (a begin time, an escalation); kNever: only an event can.
  Time next_wakeup = kNever;
};

/// A plan that has been applied.
struct Decided {
  Plan plan;
  std::vector<JobId> jobs;  // jobs[i] is the job that plan.starts[i] started.
};

}  // namespace divvy
