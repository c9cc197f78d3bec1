#include "control/books/usage_ledger.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

using Days = std::chrono::duration<std::int64_t, std::ratio<86400>>;

/// The longest period has 31 days.
constexpr std::int64_t kDaysKept = 40;

std::int64_t DayOf(Time time) { return std::chrono::floor<Days>(time.time_since_epoch()).count(); }
Time StartOf(std::int64_t day) { return Time(std::chrono::duration_cast<Duration>(Days(day))); }

std::chrono::year_month_day CivilOf(std::int64_t day) {
  return std::chrono::year_month_day(std::chrono::sys_days(std::chrono::days(day)));
}
std::int64_t DayOf(std::chrono::year_month_day civil) {
  return std::chrono::sys_days(civil).time_since_epoch().count();
}

/// Weeks begin on Monday. 1970 began on a Thursday.
std::int64_t MondayOf(std::int64_t day) { return day - ((day + 3) % 7 + 7) % 7; }

}  // namespace

Time PeriodStart(BudgetPeriod period, Time now) {
  const std::int64_t day = DayOf(now);
  if (period == BudgetPeriod::kDay) return StartOf(day);
  if (period == BudgetPeriod::kWeek) return StartOf(MondayOf(day));
  const auto civil = CivilOf(day);
  return StartOf(DayOf(civil.year() / civil.month() / 1));
}

Time PeriodEnd(BudgetPeriod period, Time now) {
  const std::int64_t first = DayOf(PeriodStart(period, now));
  if (period == BudgetPeriod::kDay) return StartOf(first + 1);
  if (period == BudgetPeriod::kWeek) return StartOf(first + 7);
  const auto civil = CivilOf(first);
  return StartOf(DayOf(std::chrono::year_month_day((civil.year() / civil.month() + std::chrono::months(1)) / 1)));
}

Used UsedOf(const Stretch& stretch, Time since) {
  const Time from = std::max(stretch.from, since);
  if (stretch.until <= from) return {};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(stretch.until - from).count();
  // The price is in thousandths per hour, the cost in millionths: cost = ms * hour_milli * 1000 / 3,600,000.
  return {ms * stretch.gpu_milli / 1000, ms * stretch.hour_milli / 3600};
}

void UsageLedger::Add(const std::vector<std::string>& keys, const Stretch& stretch) {
  for (Stretch rest = stretch; rest.from < stretch.until;) {
    const std::int64_t day = DayOf(rest.from);
    rest.until = std::min(stretch.until, StartOf(day + 1));
    const Used used = UsedOf(rest, rest.from);
    if (used != Used()) {
      for (const std::string& key : keys) days_[day][key] += used;
      changed_.insert(day);
    }
    rest.from = rest.until;
  }
}

Used UsageLedger::Of(std::string_view key, BudgetPeriod period, Time now) const {
  Used sum;
  for (auto day = days_.lower_bound(DayOf(PeriodStart(period, now))); day != days_.end(); ++day) {
    if (const auto at = day->second.find(key); at != day->second.end()) sum += at->second;
  }
  return sum;
}

std::map<std::pair<std::string, std::string>, Used> UsageLedger::OfMembers(BudgetPeriod period, Time now) const {
  std::map<std::pair<std::string, std::string>, Used> members;
  for (auto day = days_.lower_bound(DayOf(PeriodStart(period, now))); day != days_.end(); ++day) {
    for (auto at = day->second.lower_bound("in:"); at != day->second.end() && at->first.starts_with("in:"); ++at) {
      const std::size_t colon = at->first.rfind(':');
      members[{at->first.substr(3, colon - 3), at->first.substr(colon + 1)}] += at->second;
    }
  }
  return members;
}

bool UsageLedger::LoadSetting(std::string_view key, std::string_view text) {
  if (!key.starts_with(kUsagePrefix)) return false;
  const auto day = ParseInteger(key.substr(kUsagePrefix.size()));
  if (!day) return true;
  for (const std::string_view line : Split(text, '\n')) {
    const auto words = SplitWords(line);
    if (words.size() != 3) continue;
    const auto gpu_ms = ParseInteger(words[1]), cost = ParseInteger(words[2]);
    if (gpu_ms && cost) days_[*day][std::string(words[0])] = {*gpu_ms, *cost};
  }
  return true;
}

std::vector<std::pair<std::string, std::string>> UsageLedger::TakeChanges(Time now) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (changed_.empty()) return rows;
  const std::int64_t oldest = DayOf(now) - kDaysKept;
  while (!days_.empty() && days_.begin()->first < oldest) {
    rows.emplace_back(std::string(kUsagePrefix) + std::to_string(days_.begin()->first), "");
    changed_.erase(days_.begin()->first);
    days_.erase(days_.begin());
  }
  for (const std::int64_t day : changed_) {
    std::string text;
    for (const auto& [key, used] : days_[day]) {
      text += key + " " + std::to_string(used.gpu_ms) + " " + std::to_string(used.cost_micro) + "\n";
    }
    rows.emplace_back(std::string(kUsagePrefix) + std::to_string(day), std::move(text));
  }
  changed_.clear();
  return rows;
}

}  // namespace divvy
