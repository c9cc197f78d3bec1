// The runs of jobs: from the scheduler's decision to the end that a node reports, and whether the job runs again.
//
// A node that cannot start jobs because of a problem of its own (full disk, no more processes) rests for a while. Its
// jobs are requeued instead of failing one after the other on a node that is free only because nothing can run there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "control/jobs/job_lifecycle.h"
#include "control/jobs/scheduler_feed.h"
#include "control/jobs/time_sharer.h"
#include "control/state/budget_tracker.h"
#include "control/state/effect_recorder.h"
#include "control/state/fraction_planner.h"
#include "control/state/gang_launches.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "control/state/retry_delays.h"
#include "control/state/run_predictions.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class RunTracker {
 public:
  /// After a restart of the daemon or agent, the job has neither a supervisor nor a known end.
  enum class Vanished {
    kNeverStarted,  // It was never launched.
    kUnseen,        // It ran, its supervisor was killed, and its end is unknown.
    kRebooted,      // It ran when the node went down.
    kFenced,        // Its node is disconnected and has stopped its jobs because its lease expired.
    kGone,          // An administrator declared its node permanently gone.
  };

  RunTracker(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, NodeTable& nodes,
             RunPredictions& predictions, FractionPlanner& fractions, RetryDelays& retries, GangLaunches& gangs,
             BudgetTracker& budgets, SchedulerFeed& feed, JobLifecycle& lifecycle, TimeSharer& time_sharer)
      : scheduler_(scheduler),
        jobs_(jobs),
        effects_(effects),
        nodes_(nodes),
        predictions_(predictions),
        fractions_(fractions),
        retries_(retries),
        gangs_(gangs),
        budgets_(budgets),
        feed_(feed),
        lifecycle_(lifecycle),
        time_sharer_(time_sharer) {}

  // --- Decisions of the scheduler ------------------------------------------------------------------------------

  /// The job that starts next of a waiting entry: itself, or the first waiting element of the array.
  JobId NextMember(JobId entry);
  /// `decision.entry`, or an element of it, runs as `job` in the cluster already.
  void Start(const StartDecision& decision, JobId job, Time now);
  /// Stops the victim as its owner's "requeue" does; it keeps its queue position.
  void Preempt(const Preemption& preemption, Time now);

  // --- Reports of nodes: see Controller ------------------------------------------------------------------------

  void OnStarted(JobId job, std::uint32_t attempt, Time at, const std::string& node);
  void OnDelayed(JobId job, std::uint32_t attempt, const std::string& why, const std::string& node);
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at, Time now, const std::string& node);
  void OnVanished(JobId job, std::uint32_t attempt, Vanished how, Time now, const std::string& node);
  /// Ends all runs on a node in this way.
  void LoseRuns(const std::string& node, Vanished how, Time now);
  /// Stops the jobs left on a node whose drain deadline has passed, and requeues them if possible.
  void StopForDrain(NodeIndex node, Time now);

  /// Persists starts that are some seconds old.
  void KeepStarts(Time now);
  Time next_keep() const { return next_starts_; }

  // --- Ends ----------------------------------------------------------------------------------------------------

  /// The state and reason of a job whose run ended with `exit`.
  static std::pair<JobState, Reason> Judge(const JobRecord& record, const Exit& exit);
  /// Queues the job again if it is to be requeued or retried. Returns whether it did; otherwise the job is over.
  bool RunsAgain(JobRecord& record, JobState outcome, const Exit& exit, Time now);

 private:
  /// Call when all parts of the run have ended; its exit and end are set.
  void EndRun(JobRecord& record, Time now);
  /// Ends a gang's part on a node without a known end. Returns whether it was the last part (see EndAllocation).
  bool VanishAllocation(JobRecord& record, const std::string& node, Vanished how, Time now);
  /// A node could not start a job for reasons of its own.
  void OnRefusal(JobRecord& record, const std::string& node, const Exit& exit, Time now);
  /// The node's GPUs could not be emptied for the job.
  void OnNoRoom(JobRecord& record, const std::string& node, const Exit& exit);

  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
  NodeTable& nodes_;
  RunPredictions& predictions_;
  FractionPlanner& fractions_;
  RetryDelays& retries_;
  GangLaunches& gangs_;
  BudgetTracker& budgets_;
  SchedulerFeed& feed_;
  JobLifecycle& lifecycle_;
  TimeSharer& time_sharer_;
  std::map<JobId, std::uint32_t> unkept_starts_;  // Jobs that started recently, with the attempt (OnStarted).
  Time next_starts_ = kNever;                     // When those of them that still run are persisted.
};

}  // namespace divvy
