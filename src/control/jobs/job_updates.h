// Changes existing jobs. Everything is checked on copies first, so a refused change has no effect.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/job_changes.h"
#include "control/jobs/job_access.h"
#include "control/jobs/job_lifecycle.h"
#include "control/jobs/scheduler_feed.h"
#include "control/jobs/submission_limits.h"
#include "control/state/dependency_table.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "control/state/pool_rules.h"
#include "control/state/run_predictions.h"
#include "control/state/team_rules.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class JobUpdates {
 public:
  JobUpdates(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, DependencyTable& dependencies,
             RunPredictions& predictions, const TeamRules& teams, const PoolRules& pools, SchedulerFeed& feed,
             JobLifecycle& lifecycle, const JobAccess& access, const SubmissionLimits& limits)
      : scheduler_(scheduler),
        jobs_(jobs),
        effects_(effects),
        dependencies_(dependencies),
        predictions_(predictions),
        teams_(teams),
        pools_(pools),
        feed_(feed),
        lifecycle_(lifecycle),
        access_(access),
        limits_(limits) {}

  /// Changes fields of a job: all of `changes` or none (see Controller::Update).
  Result<std::string> Update(JobId id, const JobChanges& changes, const Caller& caller, Time now,
                             const FindOutcome& outcome);

 private:
  // The steps of Update. Those before Replace change nothing, except cached outcomes.
  Result<std::map<JobId, JobRecord>> Concerned(JobId id, const Caller& caller) const;
  Status KeepWhatMayChange(JobId id, const JobChanges& changes, std::map<JobId, JobRecord>& records) const;
  Status CheckChange(const JobRecord& before, const JobRecord& after, const JobChanges& changes,
                     const Caller& caller) const;
  Status CheckPoolChange(const JobRecord& after, const JobChanges& changes, const Caller& caller) const;
  /// Applies the changes to the copies in `edited`, and checks them.
  Status Edit(JobId id, std::map<JobId, JobRecord>& edited, const JobChanges& changes, const Caller& caller, Time now,
              const FindOutcome& outcome);
  Status CheckDependencies(JobId id, const std::map<JobId, JobRecord>& edited, const JobChanges& changes) const;
  void Replace(const JobRecord& after, const JobChanges& changes);

  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
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
