// The registry of teams: a tree of team rows, user rows, and the rules between them.
//
// Rows come from divvy.toml (these take precedence, and commands cannot change them) and from commands (the daemon
// stores their texts as settings). Every change is validated before it is made, so a refused one has no effect.
//
// Quotas may be on or off. Off: a team's quota is its guaranteed share, and everyone may submit. On, as in Valohai: a
// team without a quota (its own or an ancestor's) has no access, a quota of 0 blocks the team, and users without a team
// have no access either.
//
// Invariants: names are unique; parents exist and form no cycle; a quota is within the team's limit and within its
// ancestors' quotas; a limit is within its ancestors' limits.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/core/state/teams.h"
#include "model/team.h"

namespace divvy {

inline constexpr std::string_view kTeamPrefix = "team.";
inline constexpr std::string_view kTeamUserPrefix = "team_user.";
inline constexpr std::string_view kQuotasKey = "teams.quotas";

/// Formats a number of thousandths as a decimal number: 4000 is "4", 2500 is "2.5".
std::string FormatMilli(std::int64_t milli);

class TeamRegistry {
 public:
  /// Key and text for the store; an empty text removes the key.
  using Setting = std::pair<std::string, std::string>;

  /// Adds the teams of the configuration file. Call it before LoadSetting. On failure nothing is added; the message is
  /// one line.
  Status AddFile(const TeamsFile& file);
  /// Loads a row of the store. Returns false if its key is not one of this registry. Rows that cannot be read, and
  /// those of teams that the configuration file defines too, are skipped. Call Settle after the last row.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Removes references to teams that no longer exist, because the configuration file has changed. Returns one line of
  /// text for each.
  std::vector<std::string> Settle();

  Result<Setting> Set(const TeamChange& change);
  Result<Setting> Remove(const std::string& name);
  Result<Setting> SetUser(const UserChange& change);
  Result<Setting> SetQuotas(bool are_on);

  bool are_quotas_on() const { return are_quotas_on_; }
  const std::map<std::string, TeamRow, std::less<>>& teams() const { return teams_; }
  const std::map<std::string, UserRow, std::less<>>& users() const { return users_; }
  const std::vector<GpuPrice>& prices() const { return prices_; }
  bool empty() const { return teams_.empty() && users_.empty() && !are_quotas_on_; }

  const TeamRow* Find(std::string_view name) const;
  /// Returns the user's settings, or those of the default user "*"; null if there are neither.
  const UserRow* UserOf(std::string_view user) const;
  /// Returns the team and its ancestors, the team first; empty if the team does not exist.
  std::vector<const TeamRow*> PathOf(std::string_view name) const;
  /// Returns the operating system groups that teams name as their members.
  std::vector<std::string> GroupsNamed() const;

  /// Returns true if the user leads this team or an ancestor of it.
  bool IsLedBy(std::string_view team, std::string_view user) const;
  /// Returns true if teams name `user` as a member and `lead` leads all of these teams.
  bool LeadsAllOf(std::string_view lead, std::string_view user) const;

  struct Person {
    std::string user;
    std::vector<std::string> groups;
    bool is_admin = false;
  };
  /// Returns the team that a job of this person counts for; "" for no team. `wanted`: the team that the job requests,
  /// or "". Fails if the person may not use that team.
  Result<std::string> TeamFor(const Person& person, std::string_view wanted) const;
  /// Explains why no job of the team may start or be submitted: "team vision is blocked: its quota is 0". Empty if they
  /// may.
  std::string BarOf(std::string_view team) const;

  /// Returns all teams for core::Teams::Reset, parents before children. A blocked team gets limit 0, unless a team
  /// below it has access.
  std::vector<core::TeamSpec> Specs() const;
  /// Returns the team's index in Specs, counted from 1; core::kRootTeam if there is no such team.
  core::TeamIndex IndexOf(std::string_view name) const;
  /// Returns all teams in the order of Specs: each team before the teams below it, siblings by name.
  std::vector<const TeamRow*> InOrder() const;

  /// Returns the price of one hour on a GPU of this model, in thousandths of the currency unit; 0 if none is set. The
  /// price list names models or parts of their names; the longest name that is part of `gpu_model` decides.
  std::int64_t PriceOf(std::string_view gpu_model) const;

 private:
  Status Check(const TeamRow& row) const;
  Status CheckAbove(const TeamRow& row) const;
  void Reindex();
  bool HasAccessBelow(std::string_view name) const;
  bool IsMember(const TeamRow& row, const Person& person) const;

  std::map<std::string, TeamRow, std::less<>> teams_;
  std::map<std::string, UserRow, std::less<>> users_;
  std::map<std::string, core::TeamIndex, std::less<>> indices_;
  std::vector<GpuPrice> prices_;
  bool are_quotas_on_ = false;
  bool are_quotas_from_file_ = false;
};

}  // namespace divvy
