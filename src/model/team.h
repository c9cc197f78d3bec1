// Teams and users as administrators configure them: membership, quotas and limits. Plain values;
// control/books/team_registry.h implements the rules.
//
// Amounts (GPUs, GPU-hours, money) are kept in thousandths, so that sums are exact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divvy {

/// When a budget is reset: daily at midnight, on Mondays, or on the first of the month; UTC.
enum class BudgetPeriod { kDay, kWeek, kMonth };

/// "day"
constexpr const char* Name(BudgetPeriod period) {
  return period == BudgetPeriod::kDay ? "day" : period == BudgetPeriod::kWeek ? "week" : "month";
}

/// Limits of a team or a user. Not set: unlimited. 0: nothing is allowed.
struct Caps {
  std::optional<std::int64_t> running;  // Running jobs.
  std::optional<std::int64_t> queued;   // Queued jobs; array elements count one by one.
  std::optional<std::int64_t> gpu_hours_milli;
  std::optional<std::int64_t> cost_milli;
  BudgetPeriod period = BudgetPeriod::kMonth;

  bool has_budget() const { return gpu_hours_milli || cost_milli; }
  friend bool operator==(const Caps&, const Caps&) = default;
};

struct TeamRow {
  std::string name;
  std::string parent;                       // Empty: a top-level team.
  std::optional<std::int64_t> quota_milli;  // Guaranteed GPUs.
  std::optional<std::int64_t> limit_milli;  // Maximal number of GPUs in use.
  std::int64_t weight = 1;                  // Its weight in the distribution of GPUs that no quota covers.
  std::int64_t priority = 0;                // In that distribution, the highest priority is served first.
  std::vector<std::string> users;           // "*": every user.
  std::vector<std::string> groups;          // Groups of the operating system.
  std::vector<std::string> leads;           // Users who may act on the jobs of this team and of the teams below it.
  Caps caps;
  // The price of the nodes that providers have for its jobs: together in one hour, and in one month. Not set: no limit.
  std::optional<std::int64_t> nodes_per_hour_milli;
  std::optional<std::int64_t> nodes_per_month_milli;
  bool is_from_file = false;  // Defined in divvy.toml, so commands cannot change it.

  friend bool operator==(const TeamRow&, const TeamRow&) = default;
};

struct UserRow {
  std::string user;                  // "*": every user without a row.
  std::string team;                  // Default team of their jobs. Empty: the only team that they belong to.
  Caps caps;                         // Limits over all teams.
  std::optional<std::int64_t> gpus;  // Maximal number of GPUs that their jobs hold together. 0: none. Teams have
                                     // `limit` instead.
  bool is_from_file = false;

  friend bool operator==(const UserRow&, const UserRow&) = default;
};

/// Cost of one GPU-hour for models whose name contains `model` (case-insensitive). Empty: all other models.
struct GpuPrice {
  std::string model;
  std::int64_t hour_milli = 0;

  friend bool operator==(const GpuPrice&, const GpuPrice&) = default;
};

/// The team settings of divvy.toml.
struct TeamsFile {
  std::optional<bool> are_quotas_on;  // Not set: the last command decides.
  std::vector<TeamRow> teams;
  std::vector<UserRow> users;
  std::vector<GpuPrice> prices;

  friend bool operator==(const TeamsFile&, const TeamsFile&) = default;
};

/// Changes to a row. Not set: unchanged. Amounts are in units for people: 2.5 GPUs.
struct CapsChange {
  std::optional<std::int64_t> running;
  std::optional<std::int64_t> queued;
  std::optional<double> gpu_hours;
  std::optional<double> cost;
  std::optional<std::string> period;  // "day", "week", "month".
};

struct TeamChange {
  std::string name;
  bool is_new = false;  // The team must not exist yet. False: it must exist.
  std::optional<std::string> parent;
  std::optional<double> quota;
  std::optional<double> limit;
  std::optional<std::int64_t> weight;
  std::optional<std::int64_t> priority;
  std::vector<std::string> add_users;
  std::vector<std::string> remove_users;
  std::vector<std::string> add_groups;
  std::vector<std::string> remove_groups;
  std::vector<std::string> add_leads;
  std::vector<std::string> remove_leads;
  CapsChange caps;
  /// Fields to unset: "parent", "quota", "limit", "running", "queued", "gpu_hours", "cost".
  std::vector<std::string> clear;
};

struct UserChange {
  std::string user;
  std::optional<std::string> team;
  std::optional<std::int64_t> gpus;
  CapsChange caps;
  std::vector<std::string> clear;  // "team", "gpus" and the names of CapsChange; "all": removes the row.
};

}  // namespace divvy
