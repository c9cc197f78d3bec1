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
  /// Call when a run ends, or before its GPUs change.
  void CountUsage(const JobRecord& record, Time until);
  /// Jobs have started since Watch.
  void NoteStarts() { is_stale_ = true; }
  /// Budgets or teams have changed: Watch looks at all of them.
  void Reset() { change_at_ = kNoTime; }
  /// Updates which budgets are exhausted as of now. Returns whether that changed; the caller then updates what waiting
  /// jobs wait for. Cheap before next_change, unless runs started or ended.
  bool Watch(Time now);
  /// When a budget will be exhausted, or its next period begins.
  Time next_change() const { return change_at_; }

  /// Why the jobs of this key that need GPUs wait; empty: its budget is not exhausted.
  std::string WhySpent(const std::string& key) const;
  /// Fails with kLimitExceeded if the budget in `caps` of `who` is exhausted.
  Status CheckBudget(const std::string& who, const std::string& key, const Caps& caps, Time now) const;
  /// Includes running jobs. Cost: O(running jobs).
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
