#include "control/state/budget_tracker.h"

#include <algorithm>
#include <ratio>
#include <set>
#include <utility>

#include "base/text.h"
#include "control/books/record_parts.h"

namespace divvy {
namespace {

std::string In(Duration duration) {
  const auto hours = std::chrono::duration_cast<std::chrono::hours>(duration).count();
  return hours >= 48 ? "in " + Plural(hours / 24, "day") : "in " + Plural(hours + 1, "hour");
}

/// Returns "100 GPU-hours" if that budget is exhausted; otherwise "".
std::string Exhausted(const Caps& caps, const Used& used) {
  if (caps.gpu_hours_milli && used.gpu_hours_milli() >= *caps.gpu_hours_milli)
    return FormatMilli(*caps.gpu_hours_milli) + " GPU-hours";
  if (caps.cost_milli && used.cost_milli() >= *caps.cost_milli) return "budget of " + FormatMilli(*caps.cost_milli);
  return "";
}

}  // namespace

Stretch BudgetTracker::StretchOf(const JobRecord& record, Time until) const {
  // Counts only the time with the job's present GPUs. Time with other GPUs was counted when they changed
  // (control/jobs/elastic_runs.h).
  const std::int64_t parts = record.gpu_parts.ten_thousandths();
  Stretch stretch{std::max(record.started, record.gpus_since), until, GpuCountOf(record) * parts / 10, 0};
  for (const NodeAllocation& allocation : AllocationsOf(record)) {
    const auto node = nodes_.IndexOf(allocation.node);
    if (!node) continue;
    for (const GpuFacts& facts : scheduler_.node(*node).capacity.gpus) {
      if (allocation.gpus.Contains(facts.index))
        stretch.hour_milli += teams_.PriceOf(facts.model) * parts / GpuShare::kWhole;
    }
  }
  return stretch;
}

void BudgetTracker::CountUsage(const JobRecord& record, Time until) {
  if (GpuCountOf(record) == 0 || record.started == kNoTime) return;
  is_stale_ = true;
  std::vector<std::string> keys{UsageLedger::UserKey(record.user.name)};
  const auto teams = teams_.PathOf(record.team);
  for (const TeamRow* row : teams) keys.push_back(UsageLedger::TeamKey(row->name));
  keys.push_back(UsageLedger::MemberKey(teams.empty() ? "" : teams.front()->name, record.user.name));
  usage_.Add(keys, StretchOf(record, until));
  for (auto& row : usage_.TakeChanges(until)) {
    // Many runs may end in one step; only the last row is written.
    effects_.ReplaceSetting(std::move(row));
  }
}

Used BudgetTracker::UsedBy(const std::string& key, BudgetPeriod period, Time now) const {
  Used used = usage_.Of(key, period, now);
  const Time since = PeriodStart(period, now);
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    const JobRecord* record = jobs_.Find(id);
    if (record == nullptr || GpuCountOf(*record) == 0) continue;
    bool is_theirs = key == UsageLedger::UserKey(record->user.name);
    for (const TeamRow* row : teams_.PathOf(record->team))
      is_theirs = is_theirs || key == UsageLedger::TeamKey(row->name);
    if (is_theirs) used += UsedOf(StretchOf(*record, now), since);
  }
  return used;
}

std::map<std::pair<std::string, std::string>, Used> BudgetTracker::MemberUsage(Time now) const {
  auto members = usage_.OfMembers(BudgetPeriod::kMonth, now);
  const Time since = PeriodStart(BudgetPeriod::kMonth, now);
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    const JobRecord* record = jobs_.Find(id);
    if (record == nullptr || GpuCountOf(*record) == 0) continue;
    const auto teams = teams_.PathOf(record->team);
    members[{teams.empty() ? "" : teams.front()->name, record->user.name}] += UsedOf(StretchOf(*record, now), since);
  }
  return members;
}

// Updates which budgets are exhausted as of now. Affected jobs wait or become eligible; running jobs continue.
bool BudgetTracker::Watch(Time now) {
  const bool is_first = change_at_ == kNoTime;
  if (!is_stale_ && now < change_at_) return false;
  is_stale_ = false;
  if (teams_.empty() && spent_.empty()) {
    change_at_ = kNever;
    return false;
  }
  std::map<std::string, std::string> spent;
  Time change_at = kNever;
  const auto watch = [&](const std::string& who, const std::string& key, const Caps& caps) {
    if (!caps.has_budget()) return;
    const Used used = UsedBy(key, caps.period, now);
    change_at = std::min(change_at, PeriodEnd(caps.period, now));
    if (const std::string what = Exhausted(caps, used); !what.empty()) {
      spent[key] = std::string("the next ") + Name(caps.period) + ": " + who + " has used its " + what;
      return;
    }
    // Computes when the budget will be exhausted at the current rate, which is what the running jobs use in the next
    // hour.
    const Used later = UsedBy(key, caps.period, now + std::chrono::hours(1));
    const auto reach = [&](std::optional<std::int64_t> most, std::int64_t has, std::int64_t then) {
      if (!most || then <= has) return;
      const double hours = static_cast<double>(*most - has) / static_cast<double>(then - has);
      const auto wait = std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::ratio<3600>>(hours));
      change_at = std::min(change_at, AddSaturating(now, wait + std::chrono::milliseconds(100)));
    };
    reach(caps.gpu_hours_milli, used.gpu_hours_milli(), later.gpu_hours_milli());
    reach(caps.cost_milli, used.cost_milli(), later.cost_milli());
  };
  for (const auto& [name, row] : teams_.teams()) watch("team " + name, UsageLedger::TeamKey(name), row.caps);
  for (const auto& [name, row] : teams_.users()) {
    if (name != "*") watch("user " + name, UsageLedger::UserKey(name), row.caps);
  }
  if (const UserRow* everybody = teams_.UserOf("*"); everybody != nullptr && everybody->caps.has_budget()) {
    // Users without running jobs use nothing, so all users with jobs are checked only the first time.
    std::set<std::string> others;
    for (const auto& [id, job] : scheduler_.running_jobs()) others.insert(job.user);
    for (const auto& [key, text] : spent_) {
      if (key.starts_with("user:")) others.insert(key.substr(5));
    }
    for (const auto& [id, record] : jobs_.live()) {
      if (!is_first) break;
      others.insert(record.user.name);
    }
    for (const std::string& name : others) {
      if (!teams_.users().contains(name)) watch("user " + name, UsageLedger::UserKey(name), everybody->caps);
    }
  }
  change_at_ = change_at;
  return spent != std::exchange(spent_, spent);
}

Status BudgetTracker::CheckBudget(const std::string& who, const std::string& key, const Caps& caps, Time now) const {
  if (!caps.has_budget()) return {};
  const std::string used = Exhausted(caps, UsedBy(key, caps.period, now));
  if (used.empty()) return {};
  return LimitExceeded(who + " has used its " + used + " of this " + Name(caps.period) + "; the next begins " +
                       In(PeriodEnd(caps.period, now) - now));
}

std::string BudgetTracker::WhySpent(const std::string& key) const {
  const auto spent = spent_.find(key);
  return spent == spent_.end() ? "" : spent->second;
}

}  // namespace divvy
