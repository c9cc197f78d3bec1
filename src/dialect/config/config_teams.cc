#include "dialect/config/config_teams.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "dialect/config/config_values.h"
#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kTeams = "teams.", kUsers = "users.";
constexpr std::string_view kTeamKeys[] = {"parent",    "quota",  "limit",  "weight",       "priority",
                                          "users",     "groups", "leads",  "running",      "queued",
                                          "gpu_hours", "cost",   "period", "max_per_hour", "max_per_month"};
constexpr std::string_view kUserKeys[] = {"team", "gpus", "running", "queued", "gpu_hours", "cost", "period"};

Result<std::int64_t> Milli(const ConfigValue& value) {
  double amount = -1;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) amount = static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) amount = *number;
  if (!(amount >= 0) || amount > 1e9) return ExpectedNumber(value, "a number from 0 to 1000000000, without quotes");
  return static_cast<std::int64_t>(std::llround(amount * 1000));
}

Result<std::int64_t> Whole(const ConfigValue& value, std::int64_t least) {
  return ConfigCount(value, least, 1'000'000);
}

Result<std::string> Text(const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return InvalidArgument("is not a text in quotes");
}

/// Returns true if the key is a limit that teams and users share.
Result<bool> ReadCaps(const ConfigEntry& entry, Caps& caps) {
  if (entry.key == "running") {
    DIVVY_TRY(caps.running, Whole(entry.value, 0));
  } else if (entry.key == "queued") {
    DIVVY_TRY(caps.queued, Whole(entry.value, 0));
  } else if (entry.key == "gpu_hours") {
    DIVVY_TRY(caps.gpu_hours_milli, Milli(entry.value));
  } else if (entry.key == "cost") {
    DIVVY_TRY(caps.cost_milli, Milli(entry.value));
  } else if (entry.key == "period") {
    DIVVY_TRY(const std::string text, Text(entry.value));
    for (const BudgetPeriod period : {BudgetPeriod::kDay, BudgetPeriod::kWeek, BudgetPeriod::kMonth}) {
      if (text == Name(period)) {
        caps.period = period;
        return true;
      }
    }
    return InvalidArgument(Quoted(text) + " is not valid: expected one of \"day\", \"week\", \"month\"");
  } else {
    return false;
  }
  return true;
}

Status ReadTeam(const ConfigEntry& entry, TeamRow& row) {
  const ConfigValue& value = entry.value;
  if (entry.key == "parent") {
    DIVVY_TRY(row.parent, Text(value));
  } else if (entry.key == "quota") {
    DIVVY_TRY(row.quota_milli, Milli(value));
  } else if (entry.key == "limit") {
    DIVVY_TRY(row.limit_milli, Milli(value));
  } else if (entry.key == "weight") {
    DIVVY_TRY(row.weight, Whole(value, 0));
  } else if (entry.key == "priority") {
    DIVVY_TRY(row.priority, Whole(value, -1'000'000));
  } else if (entry.key == "users") {
    DIVVY_TRY(row.users, ConfigNames(value));
  } else if (entry.key == "groups") {
    DIVVY_TRY(row.groups, ConfigNames(value));
  } else if (entry.key == "leads") {
    DIVVY_TRY(row.leads, ConfigNames(value));
  } else if (entry.key == "max_per_hour") {
    DIVVY_TRY(row.nodes_per_hour_milli, Milli(value));
  } else if (entry.key == "max_per_month") {
    DIVVY_TRY(row.nodes_per_month_milli, Milli(value));
  } else if (entry.key == "gpus") {
    return InvalidArgument("is only for users; for a team, set limit");
  } else {
    DIVVY_TRY(const bool is_cap, ReadCaps(entry, row.caps));
    if (!is_cap) return UnknownConfigKey(entry, kTeamKeys);
  }
  return {};
}

Status ReadUser(const ConfigEntry& entry, UserRow& row) {
  if (entry.key == "team") {
    DIVVY_TRY(row.team, Text(entry.value));
    return {};
  }
  if (entry.key == "gpus") {
    DIVVY_TRY(row.gpus, Whole(entry.value, 0));
    return {};
  }
  DIVVY_TRY(const bool is_cap, ReadCaps(entry, row.caps));
  return is_cap ? Status() : UnknownConfigKey(entry, kUserKeys);
}

}  // namespace

bool IsOfTeams(const ConfigEntry& entry) {
  return entry.section == "teams" || entry.section == "prices" || entry.section.starts_with(kTeams) ||
         entry.section.starts_with(kUsers);
}

Status ReadTeamsEntry(const ConfigEntry& entry, TeamsFile& file) {
  if (entry.section.starts_with(kTeams)) {
    TeamRow& row = ConfigRow(file.teams, &TeamRow::name, std::string_view(entry.section).substr(kTeams.size()));
    const Status read = entry.key.empty() ? Status() : ReadTeam(entry, row);
    return read ? Status() : AboutConfigKey(entry, read.error());
  }
  if (entry.section.starts_with(kUsers)) {
    UserRow& row = ConfigRow(file.users, &UserRow::user, std::string_view(entry.section).substr(kUsers.size()));
    const Status read = entry.key.empty() ? Status() : ReadUser(entry, row);
    return read ? Status() : AboutConfigKey(entry, read.error());
  }
  if (entry.key.empty()) return {};
  if (entry.section == "prices") {
    const Result<std::int64_t> price = Milli(entry.value);
    if (!price) return AboutConfigKey(entry, price.error());
    file.prices.push_back({entry.key == "default" ? "" : entry.key, *price});
    return {};
  }
  constexpr std::string_view kKeys[] = {"quotas"};
  if (entry.key != "quotas") return UnknownConfigKey(entry, kKeys);
  const auto* is_on = std::get_if<bool>(&entry.value);
  if (is_on == nullptr) return InvalidArgument("quotas must be true or false, without quotes");
  file.are_quotas_on = *is_on;
  return {};
}

Status CheckTeamsEntry(const ConfigEntry& entry, const TeamsFile& file) {
  const bool is_parent = entry.section.starts_with(kTeams) && entry.key == "parent";
  const bool is_team = entry.section.starts_with(kUsers) && entry.key == "team";
  const auto* name = std::get_if<std::string>(&entry.value);
  if (!(is_parent || is_team) || name == nullptr || name->empty()) return {};
  std::vector<std::string_view> known;
  for (const TeamRow& row : file.teams) known.push_back(row.name);
  if (std::ranges::find(known, *name) != known.end()) return {};
  const std::string_view near = name->size() > 40 ? std::string_view() : Nearest(*name, known);
  return InvalidArgument(
      entry.key + ": there is no team " + Quoted(*name) + " in this file" +
      (near.empty() ? "; write [teams." + *name + "]" : "; did you mean " + Quoted(std::string(near)) + "?"));
}

}  // namespace divvy::dialect
