// Time-sharing of whole GPUs: running jobs are parked so that newcomers start at once, and return. docs/time-sharing.md
// has the rule. The engine chooses which jobs make room (engine/core/cycle/park.h), among those that this class offers;
// this class keeps the contract with them.
//
// A displaced job stays active. Its record has no GPUs while it is parked. It gets them again before it is told to
// return, so no GPU ever has two owners in the store.
//
//   kHere --Park--> kLeaving --node: away--> kAway --Return--> kReturning --node: here--> kHere
//             kLeaving --node: failed--> kHere                kReturning --node: failed--> tried again
//
// A sweep parks its paused trials in the same way (SetAside), also while time-sharing is off: they leave their GPUs for
// no particular job, and return only when the sweep has promoted them.
//
// Every report of a node that contradicts this state is answered with the command that restores it. So commands may be
// lost with a daemon, an agent or a keeper: all of them report again.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/jobs/scheduler_feed.h"
#include "control/state/budget_tracker.h"
#include "control/state/displacement.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

enum class TimeSharingStage {
  kTrial,    // Others are not parked for it any more, and it is not parked for others.
  kLong,     // Its trial is over, and it waits for its turn.
  kSettled,  // The contract limits what it loses.
};

/// The time-sharing state of a running job, for users.
struct TimeSharingStatus {
  TimeSharingStage stage = TimeSharingStage::kTrial;
  bool is_displaced = false;  // It is parked, or on its way to or from the host memory.
  std::string parked_for;     // While it is displaced: the display id of the job that it is parked for. Empty if its
                              // sweep has parked it.
  Duration lost{0};           // How long the run has been without its GPUs in total.
  Time returns_by = kNever;   // While it is displaced: when it gets its GPUs back at the latest, if that is guaranteed.
  std::string why_kept;       // Why it cannot be parked. Empty: it can, or is parked, or its node has not reported yet.
};

/// Jobs by their present state, and events since the start of the controller.
struct TimeSharingTotals {
  int on_trial = 0;
  int past_trial = 0;
  int parked = 0;
  std::uint64_t parks = 0;  // How often a job was parked.
  Duration lost{0};         // Time without GPUs of jobs that have returned.
};

class TimeSharer {
 public:
  TimeSharer(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, NodeTable& nodes, BudgetTracker& budgets,
             SchedulerFeed& feed)
      : scheduler_(scheduler), jobs_(jobs), effects_(effects), nodes_(nodes), budgets_(budgets), feed_(feed) {}

  /// Loads a row of the store. Returns false if its key is not one of time-sharing.
  bool LoadSetting(const std::string& key, const std::string& text);
  /// Restores the state of a running job after a restart. Call it when the job was loaded and is in the scheduler.
  void Restore(const JobRecord& record);

  /// Sets which jobs are trials that their sweep may set aside. They can be parked also while time-sharing is off.
  void SetMaySetAside(std::function<bool(const JobRecord&)> may_set_aside) {
    may_set_aside_ = std::move(may_set_aside);
  }
  /// Parks a running trial until it is promoted. Fails with the reason, one clause, if that is known to be impossible
  /// now. If it turns out to be impossible later, IsSetAside becomes false, and Displacement::failure says why.
  Status SetAsideUntilPromoted(JobRecord& record, Time now);
  /// Lets it return when GPUs of its node are idle. Has no effect on other jobs.
  void Promote(JobRecord& record, Time now);
  /// Returns true if the job is parked, or being parked, until it is promoted.
  bool IsSetAside(const JobRecord& record) const;

  /// Call this when the job starts. Returns true if it may be parked later (LaunchCommand::is_parkable).
  bool NoteStart(JobRecord& record, Time now);
  /// Call this before each scheduling cycle. Protects jobs that have run for their trial time (settles them), lets
  /// parked jobs return to their GPUs, and tells the scheduler which jobs may be parked. Cost: O(running jobs that may
  /// be parked), and for each parked one O(such jobs of its node).
  void Follow(Time now);
  /// Parks a running job, because the scheduler has decided that it makes room for another one.
  void Park(const Parking& parking, Time now);
  void OnPresence(const PresenceReport& report, Time now, const std::string& node);

  /// Returns when Follow must be called next even if nothing else happens; kNever if it need not.
  Time next_change() const { return next_change_; }
  /// Returns the time-sharing state of a running job; null if it cannot be parked.
  const Displacement* Find(const JobRecord& record) const;
  /// For a displaced job: "parked for job 31 of bob for 3 min; it returns within 24 min". Empty for others.
  Reason ReasonOf(const JobRecord& record, Time now) const;
  /// Empty if the job does not run, or was not started as one that can be parked.
  std::optional<TimeSharingStatus> StatusOf(const JobRecord& record, Time now) const;
  /// Cost: O(running jobs that may be parked).
  TimeSharingTotals TotalsAt(Time now) const;
  /// Returns the mode and what it means here: "auto: on for 3 of 4 nodes with GPUs; ...".
  std::string ModeText() const;
  /// Returns how long the run has been without its GPUs in total.
  Duration LostBy(const JobRecord& record, Time now) const;
  /// Returns by how much the job's time limit is extended, because it was parked in this run.
  Duration LimitExtensionOf(const JobRecord& record) const;
  /// Returns when a parked job gets its GPUs back at the latest; kNever if that is not guaranteed.
  Time ReturnsBy(const JobRecord& record, Time now) const;

 private:
  struct Member {
    JobRecord& record;
    Displacement& state;
    time_sharing::JobView view;

    int gpus() const { return view.gpus; }
    bool is_set_aside() const { return state.set_aside != SetAside::kNo; }
    bool is_on_trial(const time_sharing::Options& options) const { return view.ran * view.gpus < options.trial; }
  };

  void ForgetEnded();
  std::vector<Member> Members(Time now);
  void Settle(std::vector<Member>& members, Time now);
  void KeepNodes(const std::vector<Member>& members);
  /// Also gives up those that take too long to leave.
  void RepeatCommands(std::vector<Member>& members, Time now);
  void ReturnAll(std::vector<Member>& members, Time now);
  /// Returns whether a settled job, to which idle GPUs are open, leaves them idle for a while, for newcomers.
  bool LeavesIdle(Member& member, Time now);
  /// Parks jobs that have not settled, for a settled one that is away, if it is time. `open`: GPUs that it may take
  /// now. Returns whether room is being made.
  bool MakeRoom(std::vector<Member>& members, Member& owner, GpuSet open, Time now);
  void Offer(const std::vector<Member>& members, Time now);
  /// Returns the GPUs of its node that the job may use, including those that other jobs have now.
  GpuSet SuitableFor(const Member& member, Time now) const;
  /// Returns the GPUs that a displaced job may take now: the suitable ones that no job has and that are not nominated
  /// for a waiting job.
  GpuSet OpenTo(const Member& member, Time now) const;
  /// The GPUs that it takes if these are open; nothing if they do not suffice.
  std::optional<GpuSet> PlaceFor(const Member& member, GpuSet open) const;
  bool MayLeave(const Member& member, Time now) const;
  Bytes ContentOf(const JobRecord& record, const Displacement& state) const;
  Duration LeavesWithin(const JobRecord& record, const Displacement& state) const;
  Bytes MemoryWithContent(const JobRecord& record, const Displacement& state) const;
  std::string TextOf(JobId job) const;

  /// Returns whether jobs that start on this node now may be parked later.
  bool IsOnFor(NodeIndex node) const;
  void Leave(JobRecord& record, Displacement& state, JobId by, Time now);
  /// Stores and announces why the job is parked: "parked for job 17 of ada".
  void SetReason(JobRecord& record, Displacement& state, const std::string& why, Time now);
  /// `why`: the reason that users see, such as "parked for job 17 of ada".
  void StartLeaving(JobRecord& record, Displacement& state, const std::string& why, Time now);
  void Stay(JobRecord& record, Displacement& state, const std::string& why, Time now);
  void StopLeaving(JobRecord& record, Displacement& state, const std::string& why, Time now);
  void GoAway(JobRecord& record, Displacement& state, Time now);
  void Return(JobRecord& record, Displacement& state, GpuSet gpus, Time now);
  void Arrive(JobRecord& record, Displacement& state, Time now);
  void Command(const JobRecord& record, Displacement& state, Time now);
  /// Sends the command again: at once, or later if it was sent lately and the node says why it failed.
  void Repeat(const JobRecord& record, Displacement& state, const std::string& why, Time now);
  void ExtendLimit(JobRecord& record, Displacement& state, Time now);
  void EndLoss(JobRecord& record, Displacement& state, Time now);
  void Keep(const JobRecord& record, const Displacement& state);
  void WakeBy(Time at, Time now);
  time_sharing::Options options() const { return OptionsOf(feed_.policy().time_sharing); }

  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
  NodeTable& nodes_;
  BudgetTracker& budgets_;
  SchedulerFeed& feed_;
  std::function<bool(const JobRecord&)> may_set_aside_;
  std::map<JobId, Displacement> members_;
  Time next_change_ = kNever;
  TimeSharingTotals totals_;  // Only the events.
};

}  // namespace divvy
