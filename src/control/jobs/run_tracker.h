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

  /// Returns which job starts next of a waiting entry: the job itself or, for an array, its first waiting element.
  JobId NextMember(JobId entry);
  /// Starts the job that the scheduler has chosen. `job`: the id under which the scheduler already counts it as
  /// running: that of `decision.entry`, or of an element of that array.
  void Start(const StartDecision& decision, JobId job, Time now);
  /// Stops a running job that is preempted and queues it again, as the command requeue does. It keeps its queue
  /// position.
  void Preempt(const Preemption& preemption, Time now);

  // --- Reports of nodes: see Controller ------------------------------------------------------------------------

  void OnStarted(JobId job, std::uint32_t attempt, Time at, const std::string& node);
  void OnDelayed(JobId job, std::uint32_t attempt, const std::string& why, const std::string& node);
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at, Time now, const std::string& node);
  void OnVanished(JobId job, std::uint32_t attempt, Vanished how, Time now, const std::string& node);
  /// Ends all runs on a node that can no longer be watched; `how` says why.
  void LoseRuns(const std::string& node, Vanished how, Time now);
  /// Stops the jobs left on a node whose drain deadline has passed, and requeues them if possible.
  void StopForDrain(NodeIndex node, Time now);

  /// Writes the starts of jobs that started some seconds ago to the store.
  void KeepStarts(Time now);
  Time next_keep() const { return next_starts_; }

  // --- Ends ----------------------------------------------------------------------------------------------------

  /// Returns the state and reason of a job whose run has ended with `exit`.
  static std::pair<JobState, Reason> Judge(const JobRecord& record, const Exit& exit);
  /// Queues the job again if it must be requeued or retried, and then returns true. Otherwise returns false: the job
  /// has ended.
  bool RunsAgain(JobRecord& record, JobState outcome, const Exit& exit, Time now);

 private:
  /// Ends a run of which all parts have ended. Requires: the record has the exit and the end time.
  void EndRun(JobRecord& record, Time now);
  /// Ends the part of a job on several nodes that ran on this node, without knowing how it ended. Returns true if it
  /// was the last part (see EndAllocation).
  bool VanishAllocation(JobRecord& record, const std::string& node, Vanished how, Time now);
  /// Handles the report of a node that it could not start a job because of a problem of the node.
  void OnRefusal(JobRecord& record, const std::string& node, const Exit& exit, Time now);
  /// Handles the report of a node that it could not free the GPUs for the job, because other jobs' processes could not
  /// leave them.
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
