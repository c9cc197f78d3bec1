// The usage of teams and users: GPU time and its price, per day (UTC), so that the usage in any budget period is a sum
// over days. Stored as settings, one row per day. Days that no period reaches any more are dropped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "model/team.h"

namespace divvy {

inline constexpr std::string_view kUsagePrefix = "usage.";

/// Return the beginning and the end of the budget period, such as the month, that contains `now`. Periods begin at
/// midnight in UTC.
Time PeriodStart(BudgetPeriod period, Time now);
Time PeriodEnd(BudgetPeriod period, Time now);

/// Integers, so that sums are independent of the order.
struct Used {
  std::int64_t gpu_ms = 0;      // Milliseconds of one GPU.
  std::int64_t cost_micro = 0;  // Millionths of the currency.

  std::int64_t gpu_hours_milli() const { return gpu_ms / 3600; }
  std::int64_t cost_milli() const { return cost_micro / 1000; }
  Used& operator+=(const Used& other) {
    gpu_ms += other.gpu_ms;
    cost_micro += other.cost_micro;
    return *this;
  }
  friend bool operator==(const Used&, const Used&) = default;
};

/// A time interval during which `gpu_milli` thousandths of GPUs were used, at a total price of `hour_milli` per hour.
struct Stretch {
  Time from = kNoTime;
  Time until = kNoTime;
  std::int64_t gpu_milli = 0;
  std::int64_t hour_milli = 0;
};
/// Returns the GPU time and cost of a stretch of usage, only for its part after `since`.
Used UsedOf(const Stretch& stretch, Time since);

class UsageLedger {
 public:
  /// Returns the key of a team's usage: "team:vision". UserKey returns that of a user: "user:ada".
  static std::string TeamKey(std::string_view team) { return "team:" + std::string(team); }
  static std::string UserKey(std::string_view user) { return "user:" + std::string(user); }

  /// The key of one user's usage in one team. "in:vision:ada": ada in team vision itself, without the teams below it.
  /// "in::ada": ada without a team. User names contain no colon.
  static std::string MemberKey(std::string_view team, std::string_view user) {
    return "in:" + std::string(team) + ":" + std::string(user);
  }

  void Add(const std::vector<std::string>& keys, const Stretch& stretch);
  Used Of(std::string_view key, BudgetPeriod period, Time now) const;

  /// Returns the usage of each user in each team (MemberKey), as a map from (team, user).
  std::map<std::pair<std::string, std::string>, Used> OfMembers(BudgetPeriod period, Time now) const;

  /// Loads a row of the store. Returns false if its key is not one of this ledger.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Returns the store's rows that changed since the last call, and removals of old days.
  std::vector<std::pair<std::string, std::string>> TakeChanges(Time now);

 private:
  using Day = std::int64_t;  // Days since 1970.
  std::map<Day, std::map<std::string, Used, std::less<>>> days_;
  std::set<Day> changed_;
};

}  // namespace divvy
