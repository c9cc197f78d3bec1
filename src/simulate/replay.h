// Runs a trace through a decider in virtual time. Jobs arrive as in the trace and run as long as there. The
// implementation of Decider chooses which jobs start where. It is event-driven: nothing happens between two events, so
// there are no rounds.
//
// The order within one moment is: ends (by job), arrivals (by job), then one decision. If the decision causes more ends
// or arrivals at the same moment (run times of zero), another such round follows.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "simulate/traces/load_series.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

struct NodeGpus {
  std::uint32_t node = 0;
  int gpus = 0;

  friend bool operator==(const NodeGpus&, const NodeGpus&) = default;
};

struct Started {
  JobIndex job = 0;
  std::vector<NodeGpus> gpus;  // The sum may differ from the request (elastic jobs).
  /// Progress in run time per second. 1: on all requested GPUs, of the best model.
  double speed = 1;
};

struct Stopped {
  JobIndex job = 0;
  bool keeps_progress = true;  // False: it starts from the beginning at its next start.
};

struct Decision {
  std::vector<Stopped> stops;  // Applied first. A job may be stopped and started elsewhere in one decision.
  std::vector<Started> starts;
};

class Decider {
 public:
  virtual ~Decider() = default;

  virtual void Submit(JobIndex job, const TraceJob& trace_job, Time now) = 0;
  /// The job has ended, and its GPUs are free. Not called for jobs that Decide stopped.
  virtual void Ended(JobIndex job, Time now) = 0;
  virtual Decision Decide(Time now) = 0;
  /// When to call Decide even without an event. Called after each Decide; must be later than its `now`.
  virtual Time NextWakeup() const { return kNever; }
  /// Idle GPUs that are unusable because of fragmentation. Called after each Decide.
  virtual double FragmentedGpus() const { return 0; }
};

struct Outcome {
  JobIndex job = 0;
  Time submit{};
  Time first_start{};
  Time end{};
  Duration held{0};        // Time with GPUs, over all of its starts.
  double gpu_seconds = 0;  // GPU-seconds held.
  int preemptions = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct Replayed {
  std::vector<Outcome> outcomes;     // By job. Only jobs that ended.
  std::vector<JobIndex> unfinished;  // Jobs that never ended, because the decider did not start them (again).
  LoadSeries load;
  std::int64_t decisions = 0;  // Number of calls of Decide.
  std::int64_t starts = 0;
  double decide_cpu_seconds = 0;  // CPU time of one core in Submit, Ended and Decide.
};

struct ReplayOptions {
  /// Added to the run time at each start after the first: the cost of resuming.
  Duration restart_cost{0};
  /// Called occasionally with the progress, 0..1.
  std::function<void(double)> on_progress;
};

/// Fails if the run times are unknown, or if the decider starts a job that does not wait or stops one that does not
/// run.
Result<Replayed> Replay(const Workload& workload, Decider& decider, const ReplayOptions& options = {});

}  // namespace divvy::simulate
