// The registry of teams: a tree of rows, the users' own rows, and the rules that hold between them.
//
// Rows come from divvy.toml (they win, and commands do not change them) and from commands (the daemon keeps their texts
// as settings). Every change is checked against the whole before it is made, so a refused one leaves no trace.
//
// Quotas may be on or off. Off: a team's quota is what is its own by right, and everybody may submit. On, as Valohai
// has it: a team without a quota (its own or one above it) has no access, a quota of 0 blocks the team, and who is in
// no team has no access either.
//
// Invariants: names are unique, parents exist and form no cycle; a quota is within the team's limit and within the
// quota above it; a limit is within the limit above it.
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

/// "4", "2.5": thousandths as people write them.
std::string FormatMilli(std::int64_t milli);

class TeamBook {
 public:
  /// Key and text, for the store; an empty text removes the key.
  using Setting = std::pair<std::string, std::string>;

  /// Before settings are loaded. Fails with one line; nothing is taken then.
  Status AddFile(const TeamsFile& file);
  /// True if the key is one of this book's. A row that can no longer be read, or that the file has, is left out; after
  /// the last one, Settle.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Drops what the file has made impossible since: a parent that is gone. Says what, a line each.
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
  /// The user's own row, or everybody's; null: there is none.
  const UserRow* UserOf(std::string_view user) const;
  /// The team and all above it, itself first; empty for one that does not exist.
  std::vector<const TeamRow*> PathOf(std::string_view name) const;
  /// Groups of the operating system that some team names.
  std::vector<std::string> GroupsNamed() const;

  /// Leads this team, or one above it.
  bool IsLedBy(std::string_view team, std::string_view user) const;
  /// `user` is named as a member of some team, and `lead` leads each of those.
  bool LeadsAllOf(std::string_view lead, std::string_view user) const;

  struct Person {
    std::string user;
    std::vector<std::string> groups;
    bool is_admin = false;
  };
  /// Whose share a job of this person runs on; `wanted` is what they say, empty: nothing. Empty: nobody's.
  Result<std::string> TeamFor(const Person& person, std::string_view wanted) const;
  /// Why no job of the team may start or be submitted: "team vision is blocked: its quota is 0". Empty: it may.
  std::string BarOf(std::string_view team) const;

  /// For core::Teams::Reset: parents before children. A barred team's limit is 0, unless one below it has access.
  std::vector<core::TeamSpec> Specs() const;
  /// Its index among Specs, from 1; core::kRootTeam for a team that does not exist.
  core::TeamIndex IndexOf(std::string_view name) const;
  /// In the order of Specs: as a tree, siblings by name.
  std::vector<const TeamRow*> InOrder() const;

  /// Of an hour on a GPU of this model, in thousandths.
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
