// divvy's teams in the words of Slurm's accounting: a team is an account, a user's place in it an association. Where
// there are no teams everybody is of the account "root". Pure functions of messages.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_look/slurm_table.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli::slurm {

/// A record of accounting, by the names of its fields ("account", "grptres"); what is not set is empty.
using TeamRow = std::map<std::string, std::string, std::less<>>;

/// Who asks, and what only this machine knows.
struct TeamScene {
  std::string user;                 // Of the caller, who is listed even where nobody has said anything of them.
  std::vector<std::string> groups;  // Of the operating system.
  std::string owner;                // Whose daemon it is.
  std::string host;                 // Of the controller.
};

enum class TeamEntity { kUser, kAccount, kAssociation, kCluster, kQos, kTres };
/// By its name or the beginning of it: "assoc", "users"; kNotFound.
Result<TeamEntity> TeamEntityOf(std::string_view word);

/// Of the list in JSON: "users".
std::string_view TeamEntityKey(TeamEntity entity);

/// All records of that kind, in Slurm's order: accounts as a tree, each with its users behind it.
/// `has_associations`: of users, a record for each of their accounts.
std::vector<TeamRow> TeamRows(TeamEntity entity, const wire::TeamsView& teams, const TeamScene& scene,
                              bool has_associations = false);

/// The fields of `sacctmgr show` without format=.
std::string_view TeamFieldsOf(TeamEntity entity, bool has_associations);

/// `fields` as sacctmgr takes them: "user,account%20", by the beginning of a name too.
Result<std::string> FormatTeams(const std::vector<TeamRow>& rows, const std::vector<std::string>& fields,
                                const TableStyle& style);

inline constexpr std::string_view kShareFields = "account,user,rawshares,normshares,rawusage,effectvusage,fairshare";
inline constexpr std::string_view kShareLong =
    "account,user,rawshares,normshares,rawusage,normusage,effectvusage,fairshare,levelfs,grptresmins,tresrunmins";
/// sshare: the tree with shares and use. RawUsage is GPU-seconds of the budget's period; FairShare is 2 to the power of
/// -(part of the use / part of the shares), after "Priority factors" of Slurm's manual before Fair Tree.
std::vector<TeamRow> ShareRows(const wire::TeamsView& teams, const TeamScene& scene);
Result<std::string> FormatShares(const std::vector<TeamRow>& rows, const std::vector<std::string>& fields,
                                 const TableStyle& style);

}  // namespace divvy::cli::slurm
