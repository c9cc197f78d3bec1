// Teams and users as administrators describe them: who belongs where, what is theirs, and what they may use up.
// Plain values; control/books/team_book.h knows the rules.
//
// Amounts (GPUs, GPU-hours, money) are kept in thousandths, so that sums are exact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divvy {

/// When a budget begins anew: at midnight, on Monday, on the first of the month; UTC.
enum class BudgetPeriod { kDay, kWeek, kMonth };

/// "day"
constexpr const char* Name(BudgetPeriod period) {
  return period == BudgetPeriod::kDay ? "day" : period == BudgetPeriod::kWeek ? "week" : "month";
}

/// What a team, or a user, may have or use up. Nothing: as much as they like. 0: none at all.
struct Caps {
  std::optional<std::int64_t> running;  // Jobs at once.
  std::optional<std::int64_t> queued;   // Jobs, elements of arrays counted one by one.
  std::optional<std::int64_t> gpu_hours_milli;
  std::optional<std::int64_t> cost_milli;
  BudgetPeriod period = BudgetPeriod::kMonth;

  bool has_budget() const { return gpu_hours_milli || cost_milli; }
  friend bool operator==(const Caps&, const Caps&) = default;
};

struct TeamRow {
  std::string name;
  std::string parent;                       // Empty: at the top.
  std::optional<std::int64_t> quota_milli;  // GPUs that are its own by right.
  std::optional<std::int64_t> limit_milli;  // GPUs that it never runs more of.
  std::int64_t weight = 1;                  // Of what nobody's quota covers.
  std::int64_t priority = 0;                // Of that, the highest is served first.
  std::vector<std::string> users;           // "*": everybody.
  std::vector<std::string> groups;          // Of the operating system.
  std::vector<std::string> leads;           // Users who may act on its jobs, and on those of the teams below it.
  Caps caps;
  bool is_from_file = false;  // Of divvy.toml: commands do not change it.

  friend bool operator==(const TeamRow&, const TeamRow&) = default;
};

struct UserRow {
  std::string user;  // "*": everybody who has no row.
  std::string team;  // Whose share their jobs run on unless they say so; empty: the only one that they are in.
  Caps caps;         // Over all teams,
  std::optional<std::int64_t> gpus;  // as are these GPUs, that their jobs hold together; 0: none. A team has a limit.
  bool is_from_file = false;

  friend bool operator==(const UserRow&, const UserRow&) = default;
};

/// What an hour on a GPU costs whose model's name contains `model`, in any case; empty: any other.
struct GpuPrice {
  std::string model;
  std::int64_t hour_milli = 0;

  friend bool operator==(const GpuPrice&, const GpuPrice&) = default;
};

/// What divvy.toml says of teams.
struct TeamsFile {
  std::optional<bool> are_quotas_on;  // Nothing: as was last said by a command.
  std::vector<TeamRow> teams;
  std::vector<UserRow> users;
  std::vector<GpuPrice> prices;

  friend bool operator==(const TeamsFile&, const TeamsFile&) = default;
};

/// What is to change of a row; nothing: it stays. Amounts as people write them: 2.5 GPUs.
struct CapsChange {
  std::optional<std::int64_t> running;
  std::optional<std::int64_t> queued;
  std::optional<double> gpu_hours;
  std::optional<double> cost;
  std::optional<std::string> period;  // "day", "week", "month".
};

struct TeamChange {
  std::string name;
  bool is_new = false;  // It must not exist yet; else it must.
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
  /// What is to be nothing again: "parent", "quota", "limit", "running", "queued", "gpu_hours", "cost".
  std::vector<std::string> clear;
};

struct UserChange {
  std::string user;
  std::optional<std::string> team;
  std::optional<std::int64_t> gpus;
  CapsChange caps;
  std::vector<std::string> clear;  // "team", "gpus" and those of caps; "all": the row goes.
};

}  // namespace divvy
