// Learns from ended runs about similar jobs: how long they run, and how fast they are on each GPU model.
#pragma once

#include <string>
#include <vector>

#include "control/books/runtime_predictor.h"
#include "control/books/throughput_model.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "engine/core/estimate/estimate.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class RunPredictions {
 public:
  RunPredictions(const Scheduler& scheduler, const JobTable& jobs, const NodeTable& nodes)
      : scheduler_(scheduler), jobs_(jobs), nodes_(nodes) {}

  /// Registers a live job, or an array for all its elements.
  void Know(const JobRecord& record) { run_times_.Know(record, record.shape); }
  void Forget(JobId job) { run_times_.Forget(job); }

  void LearnRunTimes(const std::vector<JobRecord>& finished);  ///< See Controller.
  void LearnRunTime(const JobRecord& record, Duration ran) { run_times_.Ran(record, ran); }
  /// Learns the job's speed from a run that has ended. `ended_well`: it succeeded, so that its run time counts, too.
  void LearnSpeed(const JobRecord& record, bool ended_well);

  Duration Predict(const JobRecord& record) { return run_times_.Predict(record); }
  /// Returns the job's learned speeds on GPU models, in the scheduler's format; empty if unknown, or if they do not
  /// matter for this job.
  std::vector<ModelSpeed> LearnedSpeeds(const JobRecord& record) const;
  std::string SpeedsOf(const JobRecord& record) const;  ///< See Controller.
  core::SpreadOf Spread() const;
  const RunTimes& run_times() const { return run_times_.run_times(); }
  const ThroughputModel& speeds() const { return speeds_; }

  /// Returns waiting jobs whose predicted run times have changed; the caller updates them in the queue. Goes through
  /// the queue at most once a minute, in several calls.
  std::vector<JobId> Sweep(Time now);
  /// Returns when Sweep must be called next.
  Time next_sweep() const;

 private:
  const Scheduler& scheduler_;
  const JobTable& jobs_;
  const NodeTable& nodes_;
  RuntimePredictor run_times_;
  ThroughputModel speeds_;
  // The sweep: its position, when it continues, and the run count at its start.
  JobId refreshed_until_;
  Time next_refresh_ = kNoTime;
  std::uint64_t refreshed_runs_ = 0;
  std::uint64_t sweep_runs_ = 0;
};

}  // namespace divvy
