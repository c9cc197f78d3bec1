// New jobs, trials of what they would lead to, and ended jobs that are submitted again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/jobs/job_access.h"
#include "control/jobs/job_lifecycle.h"
#include "control/jobs/scheduler_feed.h"
#include "control/jobs/submission_limits.h"
#include "control/state/dependency_table.h"
#include "control/state/effect_recorder.h"
#include "control/state/found_runs.h"
#include "control/state/gpu_monitor.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "control/state/pool_rules.h"
#include "control/state/run_predictions.h"
#include "control/state/team_rules.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

struct SubmitResult {
  JobId id;
  std::uint64_t count = 1;
  JobState state = JobState::kQueued;
};

/// The prediction of what a submission would lead to.
struct Forecast {
  JobId id;                                 // The id that it would get.
  Time start = kNever;                      // kNever: no known event makes it start.
  std::string basis;                        // Explains `start`, or why there is none; empty: it would start at once.
  std::vector<NodeAllocation> allocations;  // The nodes, if it would start at once.
  bool is_kept = false;  // Something else than nodes keeps it: a hold, a dependency, a time, a limit.
};

class Submissions {
 public:
  Submissions(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, const NodeTable& nodes, GpuMonitor& gpus,
              FoundRuns& found, DependencyTable& dependencies, RunPredictions& predictions, const TeamRules& teams,
              const PoolRules& pools, SchedulerFeed& feed, JobLifecycle& lifecycle, const JobAccess& access,
              const SubmissionLimits& limits)
      : scheduler_(scheduler),
        jobs_(jobs),
        effects_(effects),
        nodes_(nodes),
        gpus_(gpus),
        found_(found),
        dependencies_(dependencies),
        predictions_(predictions),
        teams_(teams),
        pools_(pools),
        feed_(feed),
        lifecycle_(lifecycle),
        access_(access),
        limits_(limits) {}

  // See Controller.
  Result<SubmitResult> Submit(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                              const FindOutcome& outcome);
  Result<Forecast> Foresee(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                           const FindOutcome& outcome);
  void Withdraw(const std::vector<JobId>& ids, Time now);
  Result<std::string> RequeueEnded(JobRecord ended, const JobSpec& spec, std::optional<JobRecord> array,
                                   std::vector<std::string> owner_groups, RequeueAs as, const Caller& caller, Time now);

 private:
  /// Removes a live job and its elements from memory and appends them to `removed`.
  void RemoveSubmission(JobId id, std::vector<JobRecord>& removed);
  Forecast ForecastOf(JobId waiting, Time now) const;
  /// For an array with a dependency on kSameElement: makes a record of each element, because each waits on its own.
  void SplitByCounterparts(JobId array, Time now, const FindOutcome& outcome);

  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
  const NodeTable& nodes_;
  GpuMonitor& gpus_;
  FoundRuns& found_;
  DependencyTable& dependencies_;
  RunPredictions& predictions_;
  const TeamRules& teams_;
  const PoolRules& pools_;
  SchedulerFeed& feed_;
  JobLifecycle& lifecycle_;
  const JobAccess& access_;
  const SubmissionLimits& limits_;
};

}  // namespace divvy
