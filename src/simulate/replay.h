// A trace run through a decider in virtual time: jobs arrive when they did, run for as long as they did, and whoever
// implements Decider says which start where. Event by event: nothing happens between two events, so there are no
// rounds.
//
// At one moment, in this order: ends (by job), arrivals (by job), then one decision. Ends and arrivals that the
// decision causes at the same moment (run times of zero) come with one more round of the same.
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
  std::vector<NodeGpus> gpus;  // Their sum may differ from what was asked for (elastic jobs).
  /// Of run time passed in a second: 1 on all GPUs asked for, of the best kind.
  double speed = 1;
};

struct Stopped {
  JobIndex job = 0;
  bool keeps_progress = true;  // False: it begins anew when it starts again.
};

struct Decision {
  std::vector<Stopped> stops;  // First; a job may be stopped and started elsewhere at once.
  std::vector<Started> starts;
};

class Decider {
 public:
  virtual ~Decider() = default;

  virtual void Submit(JobIndex job, const TraceJob& trace_job, Time now) = 0;
  /// It ran to its end; its GPUs are free. A job that Decide stopped does not end by that.
  virtual void Ended(JobIndex job, Time now) = 0;
  virtual Decision Decide(Time now) = 0;
  /// When Decide is to be asked even if nothing happens before. Asked after each Decide; later than its `now`.
  virtual Time NextWakeup() const { return kNever; }
  /// GPUs that are idle and of no use; asked after each Decide.
  virtual double FragmentedGpus() const { return 0; }
};

struct Outcome {
  JobIndex job = 0;
  Time submit{};
  Time first_start{};
  Time end{};
  Duration held{0};        // With GPUs, over all of its starts.
  double gpu_seconds = 0;  // Held.
  int preemptions = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct Replayed {
  std::vector<Outcome> outcomes;     // By job; only those that ended.
  std::vector<JobIndex> unfinished;  // Never ended, because the decider never started them (again).
  LoadSeries load;
  std::int64_t decisions = 0;  // Calls of Decide.
  std::int64_t starts = 0;
  double decide_cpu_seconds = 0;  // Of one core in Submit, Ended and Decide.
};

struct ReplayOptions {
  /// Added to the run time at each start after the first: what it costs to come back.
  Duration restart_cost{0};
  /// Called with 0..1, now and then.
  std::function<void(double)> on_progress;
};

/// Fails where the run times are not known, and where the decider starts what does not wait or stops what does not run.
Result<Replayed> Replay(const Workload& workload, Decider& decider, const ReplayOptions& options = {});

}  // namespace divvy::simulate
