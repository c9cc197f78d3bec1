// How live jobs end, return to the queue, and leave their array; and what follows for the jobs that depend on them.
//
// References to records stay valid until the job ends: after Finish, and after anything that may end the job
// (ResolveDependents, EndLate), look it up again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "control/jobs/scheduler_feed.h"
#include "control/state/deadline_watch.h"
#include "control/state/dependency_table.h"
#include "control/state/effect_recorder.h"
#include "control/state/fraction_planner.h"
#include "control/state/gang_launches.h"
#include "control/state/job_table.h"
#include "control/state/retry_delays.h"
#include "control/state/run_predictions.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class JobLifecycle {
 public:
  JobLifecycle(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, DependencyTable& dependencies,
               RunPredictions& predictions, DeadlineWatch& deadlines, RetryDelays& retries, GangLaunches& gangs,
               FractionPlanner& fractions, SchedulerFeed& feed)
      : scheduler_(scheduler),
        jobs_(jobs),
        effects_(effects),
        dependencies_(dependencies),
        predictions_(predictions),
        deadlines_(deadlines),
        retries_(retries),
        gangs_(gangs),
        fractions_(fractions),
        feed_(feed) {}

  /// Sets the function that is called within Finish, with the final record. It must not end or start jobs.
  void SetOnFinished(std::function<void(const JobRecord& ended)> on_finished) { on_finished_ = std::move(on_finished); }

  /// Ends the job: its record is removed from the table of live jobs. If it was the last element of an array, the array
  /// ends too.
  void Finish(JobRecord& record, JobState state, Reason reason, Time now);
  void FinishArrayIfDone(JobId array, Time now);
  /// Puts a job back into the queue after a run. It may start from `begin` on.
  void QueueAgain(JobRecord& record, Time begin, Reason reason, Time now);
  /// Removes the job from the scheduler, whether it waits or runs.
  void LeaveCluster(const JobRecord& record);
  /// Updates the jobs that depend on the job `changed`, which has changed or ended, and cancels those that can never
  /// start.
  void ResolveDependents(const JobRecord& changed, Time now);
  /// Ends waiting jobs that can no longer meet their deadline.
  void EndLate(Time now);
  /// Makes an array element a record of its own, so that it can differ from the array.
  JobRecord* SplitElement(JobRecord& array, std::uint32_t ordinal);
  /// Removes `element`, which has ended, from its array's counts of ended elements. `array`: its record if it is no
  /// longer live.
  void SplitFromArray(const JobRecord& element, std::optional<JobRecord> array);

 private:
  void EndLateElements(JobRecord& array, Time now);

  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
  DependencyTable& dependencies_;
  RunPredictions& predictions_;
  DeadlineWatch& deadlines_;
  RetryDelays& retries_;
  GangLaunches& gangs_;
  FractionPlanner& fractions_;
  SchedulerFeed& feed_;
  std::function<void(const JobRecord& ended)> on_finished_;
};

}  // namespace divvy
