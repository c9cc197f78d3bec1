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

/// "4", "2.5": formats thousandths as a decimal number.
std::string FormatMilli(std::int64_t milli);

class TeamRegistry {
 public:
  /// Key and text for the store; an empty text removes the key.
  using Setting = std::pair<std::string, std::string>;

  /// Call before loading settings. On failure nothing is added; the message is one line.
  Status AddFile(const TeamsFile& file);
  /// Returns whether the key belongs to this registry. Unreadable rows, and rows that the file defines too, are
  /// skipped. Call Settle after the last one.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Drops references that the file has made invalid: removed parents and teams. Returns one line for each.
  std::vector<std::string> Settle();

  Result<Setting> Set(const TeamChange& change);
  Result<Setting> Remove(const std::string& name);
  Result<Setting> SetUser(const UserChange& change);
  Result<Setting> SetQuotas(bool are_on);

  bool are_quotas_on() const { return are_quotas_on_; }
  bool are_quotas_from_file() const { return are_quotas_from_file_; }
  const std::map<std::string, TeamRow, std::less<>>& teams() const { return teams_; }
  const std::map<std::string, UserRow, std::less<>>& users() const { return users_; }
  const std::vector<GpuPrice>& prices() const { return prices_; }
  bool empty() const { return teams_.empty() && users_.empty() && !are_quotas_on_; }

  const TeamRow* Find(std::string_view name) const;
  /// The user's own row, or the default row "*"; null if there is none.
  const UserRow* UserOf(std::string_view user) const;
  /// The team and its ancestors, itself first; empty if the team does not exist.
  std::vector<const TeamRow*> PathOf(std::string_view name) const;
  /// Operating system groups that some team names.
  std::vector<std::string> GroupsNamed() const;

  /// Returns whether the user leads this team or an ancestor of it.
  bool IsLedBy(std::string_view team, std::string_view user) const;
  /// Returns whether `user` is a named member of some team, and `lead` leads all of those teams.
  bool LeadsAllOf(std::string_view lead, std::string_view user) const;

  struct Person {
    std::string user;
    std::vector<std::string> groups;
    bool is_admin = false;
  };
  /// The team whose share the person's job runs on; `wanted` is the requested team, or empty. Empty result: no team.
  Result<std::string> TeamFor(const Person& person, std::string_view wanted) const;
  /// Explains why no job of the team may start or be submitted: "team vision is blocked: its quota is 0". Empty if they
  /// may.
  std::string BarOf(std::string_view team) const;

  /// For core::Teams::Reset: parents before children. A blocked team gets limit 0, unless a team below it has access.
  std::vector<core::TeamSpec> Specs() const;
  /// The team's index in Specs, counted from 1; core::kRootTeam if it does not exist.
  core::TeamIndex IndexOf(std::string_view name) const;
  /// In the order of Specs: depth first, siblings by name.
  std::vector<const TeamRow*> InOrder() const;

  /// The price of one hour on a GPU of this model, in thousandths of the currency unit. 0 if none is set. Of
  /// the names in the price list that are part of the model, the longest decides.
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
