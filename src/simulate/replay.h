// Runs a trace through a decider in virtual time. Jobs arrive as in the trace and run as long as there. The
// implementation of Decider chooses which jobs start where. It is event-driven: nothing happens between two events, so
// there are no rounds.
//
// The order within one moment is: ends (by job), arrivals (by job), then one decision. If the decision causes more ends
// or arrivals at the same moment (run times of zero), another such round follows.
#pragma once

#include <functional>
#include <optional>
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
  Duration delay{0};  // It holds its GPUs this long before its run begins: copies to and from host memory.
};

struct Stopped {
  JobIndex job = 0;
  bool keeps_progress = true;  // False: it starts from the beginning at its next start.
};

struct Decision {
  std::vector<Stopped> stops;  // Applied first. A job may be stopped and started elsewhere in one decision.
  std::vector<Started> starts;
};

/// How well a policy with time-sharing kept its contract (engine/time_sharing/time_sharing.h).
struct ContractFigures {
  std::int64_t jobs_settled = 0;    // Jobs that can be parked and that the contract protected at some time.
  std::int64_t jobs_above = 0;      // The jobs among them that at some moment had lost more than their contract allows.
  double worst_excess_seconds = 0;  // The most that a job had lost beyond its contract.
  double settled_gpu_hours = 0;     // GPU time of jobs that can be parked, while the contract protected them.
  double unsettled_gpu_hours = 0;   // The same while it did not, after their trials.
};

class Decider {
 public:
  virtual ~Decider() = default;

  virtual void Submit(JobIndex job, const TraceJob& trace_job, Time now) = 0;
  /// Called when a job has ended and its GPUs are free. Not called for jobs that Decide stopped.
  virtual void Ended(JobIndex job, Time now) = 0;
  virtual Decision Decide(Time now) = 0;
  /// Returns when Decide must be called next even if no job arrives or ends. Called after each Decide; the result must
  /// be later than the `now` of that call.
  virtual Time NextWakeup() const { return kNever; }
  /// Returns how many idle GPUs are unusable because of fragmentation. Called after each Decide.
  virtual double FragmentedGpus() const { return 0; }
  /// Returns how well time-sharing kept to its limit of lost time; nullopt for policies without time-sharing.
  virtual std::optional<ContractFigures> contract() const { return std::nullopt; }
};

struct Outcome {
  JobIndex job = 0;
  Time submit{};
  Time first_start{};  // When its first run began.
  Time end{};
  Duration held{0};        // Time with GPUs, over all of its starts.
  Duration copying{0};     // The part of `held` in which it did not run (Started::delay).
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
  std::optional<ContractFigures> contract;
};

struct ReplayOptions {
  /// Added to the run time at each start after the first: the cost of resuming.
  Duration restart_cost{0};
  /// Called now and then with the progress of the simulation, from 0 to 1.
  std::function<void(double)> on_progress;
};

/// Simulates the workload with the scheduler `decider`. Fails if the workload has no run times, or if the scheduler
/// starts a job that does not wait or stops one that does not run.
Result<Replayed> Replay(const Workload& workload, Decider& decider, const ReplayOptions& options = {});

}  // namespace divvy::simulate
