// Collects what a step of the controller causes: rows to persist, node commands, changes for watchers, and when the
// scheduler must plan again. Every owner of state in the controller writes here; only the controller reads.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "control/books/effects.h"

namespace divvy {

class EffectRecorder {
 public:
  // --- Rows ----------------------------------------------------------------------------------------------------

  /// Adds the store's row of a new job. `spec`: its specification; null for an array element, which uses that of its
  /// array.
  void Insert(const JobRecord& record, std::shared_ptr<const JobSpec> spec);
  /// Lets the job's record be written to the store as it is now. A later call in the same step replaces an earlier one.
  /// Cost: O(1).
  void Persist(const JobRecord& record);
  void Note(JobId id, std::string text, Time now) { effects_.batch.history.push_back({id, now, std::move(text)}); }
  /// Records a run of a job that will run again (model/run_line.h).
  void KeepRun(const JobRecord& record, JobState outcome, Time ended);
  void KeepSetting(std::string_view key, std::string text) {
    effects_.batch.settings.emplace_back(key, std::move(text));
  }
  void KeepSetting(std::pair<std::string, std::string> row) { effects_.batch.settings.push_back(std::move(row)); }
  /// Writes a row of the store, like KeepSetting, but replaces what this step has written for the same key before.
  void ReplaceSetting(std::pair<std::string, std::string> row);
  void KeepNextId(std::uint64_t next_id) { effects_.batch.next_id = next_id; }
  void KeepSpec(JobId id, std::shared_ptr<const JobSpec> spec);
  /// Returns the job's specification if it was added or changed since the last Take; otherwise null.
  std::shared_ptr<const JobSpec> PendingSpec(JobId id) const;

  // --- Node commands -------------------------------------------------------------------------------------------

  /// Sends the command to the node that it names.
  void Send(NodeCommand command) { effects_.commands.push_back(std::move(command)); }
  /// Sends the command to every node of the job whose part has not ended.
  void Send(const JobRecord& record, NodeCommand command);

  // --- Watchers ------------------------------------------------------------------------------------------------

  void Announce(const JobRecord& record) { Announce(record, record.reason); }
  void Announce(const JobRecord& record, const Reason& text) {
    effects_.changes.push_back({record.id, record.state, text, record.array_count > 0});
  }
  /// Notifies clients that watch for changes that the state of GPUs has changed.
  void AnnounceGpus() { effects_.changes.push_back({JobId(), JobState::kQueued, ""}); }
  /// Adds an entry to the history and notifies watchers: "GPU 3 works again".
  void AnnounceMachineEvent(const std::string& text, Time now);
  void ReportFinished(JobRecord ended) { effects_.finished.push_back(std::move(ended)); }

  // --- Planning ------------------------------------------------------------------------------------------------

  /// Call this after a change that may let the scheduler decide differently, so that a scheduling cycle follows.
  void RequestPlan() { needs_plan_ = true; }
  /// Makes sure that a scheduling cycle runs at `at` or before.
  void WakeBy(Time at) { next_wakeup_ = std::min(next_wakeup_, at); }
  bool needs_plan() const { return needs_plan_; }
  void SetNeedsPlan(bool needs_plan) { needs_plan_ = needs_plan; }
  Time next_wakeup() const { return next_wakeup_; }
  void SetNextWakeup(Time at) { next_wakeup_ = at; }

  // --- The controller ------------------------------------------------------------------------------------------

  /// Returns what was recorded since the last call: rows to store, commands to nodes, and notifications.
  Effects Take();
  /// Begins a trial: returns the effects recorded so far, and continues with none. Restore gives them back and drops
  /// the effects of the trial, except its requests for wake-ups.
  EffectRecorder SetAside();
  void Restore(EffectRecorder before);

 private:
  /// The position of each record in the batch, so that a step that changes 100,000 jobs finds each in O(1).
  struct BatchIndex {
    std::unordered_map<JobId, std::size_t> inserts;
    std::unordered_map<JobId, std::size_t> updates;
  };

  Effects effects_;
  BatchIndex index_;
  bool needs_plan_ = true;
  Time next_wakeup_ = kNever;
};

}  // namespace divvy
