// The usage of teams and users, and which of their budgets are exhausted. Jobs of an exhausted budget wait for its next
// period; running jobs continue.
//
// Keys are those of UsageLedger.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "control/books/team_registry.h"
#include "control/books/usage_ledger.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class BudgetTracker {
 public:
  BudgetTracker(const Scheduler& scheduler, const JobTable& jobs, EffectRecorder& effects, const NodeTable& nodes,
                const TeamRegistry& teams)
      : scheduler_(scheduler), jobs_(jobs), effects_(effects), nodes_(nodes), teams_(teams) {}

  bool LoadSetting(std::string_view key, std::string_view text) { return usage_.LoadSetting(key, text); }
  /// Adds the GPU time of a run up to `until` to the usage of its team and user. Call it when the run ends, or before
  /// its GPUs change.
  void CountUsage(const JobRecord& record, Time until);
  /// Call this when jobs have started, so that the next Watch does not skip its work.
  void NoteStarts() { is_stale_ = true; }
  /// Call this when budgets or teams have changed. The next Watch then checks all budgets.
  void Reset() { change_at_ = kNoTime; }
  /// Updates which budgets are exhausted as of now. Returns true if that has changed; the caller then updates what
  /// waiting jobs wait for. Cheap before next_change, unless runs have started or ended.
  bool Watch(Time now);
  /// Returns the next time at which a budget will be exhausted or a new budget period begins.
  Time next_change() const { return change_at_; }

  /// Returns why jobs with GPUs of this team or user must wait: its budget is exhausted. Empty if it is not.
  std::string WhySpent(const std::string& key) const;
  /// Fails with kLimitExceeded if the budget in `caps`, of the team or user with this key, is exhausted. `who`: its
  /// name in the error.
  Status CheckBudget(const std::string& who, const std::string& key, const Caps& caps, Time now) const;
  /// Returns the usage of this team or user in the budget period of `now`, including running jobs. Cost: O(running
  /// jobs).
  Used UsedBy(const std::string& key, BudgetPeriod period, Time now) const;
  std::map<std::pair<std::string, std::string>, Used> MemberUsage(Time now) const;  ///< See Controller.

 private:
  Stretch StretchOf(const JobRecord& record, Time until) const;

  const Scheduler& scheduler_;
  const JobTable& jobs_;
  EffectRecorder& effects_;
  const NodeTable& nodes_;
  const TeamRegistry& teams_;
  UsageLedger usage_;
  std::map<std::string, std::string> spent_;  // Keys whose budget is exhausted, with the text that their jobs wait for.
  Time change_at_ = kNoTime;
  bool is_stale_ = false;  // The set of running jobs has changed since Watch.
};

}  // namespace divvy
