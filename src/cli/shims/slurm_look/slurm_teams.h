// divvy's teams in terms of Slurm's accounting: a team is an account, and a user's membership is an association.
// Without teams, everybody belongs to the account "root". Pure functions of messages.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_look/slurm_table.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli::slurm {

/// An accounting record: field name ("account", "grptres") to value. Unset fields are empty.
using TeamRow = std::map<std::string, std::string, std::less<>>;

/// The caller, and data that only this machine has.
struct TeamScene {
  std::string user;                 // The caller, who is always listed.
  std::vector<std::string> groups;  // The caller's groups in the operating system.
  std::string owner;                // The user who owns the daemon.
  std::string host;                 // The controller's host.
};

enum class TeamEntity { kUser, kAccount, kAssociation, kCluster, kQos, kTres };
/// Finds the kind of record that sacctmgr is asked for, by its name or the beginning of it: "assoc", "users". Fails
/// with kNotFound for any other word.
Result<TeamEntity> TeamEntityOf(std::string_view word);

/// The key of the list in JSON: "users".
std::string_view TeamEntityKey(TeamEntity entity);

/// Returns all records of that kind, in Slurm's order: accounts as a tree, each followed by its users. With
/// `has_associations`, a user has one record per account.
std::vector<TeamRow> TeamRows(TeamEntity entity, const wire::TeamsView& teams, const TeamScene& scene,
                              bool has_associations = false);

/// The default fields of `sacctmgr show`, without format=.
std::string_view TeamFieldsOf(TeamEntity entity, bool has_associations);

/// `fields` in sacctmgr's syntax: "user,account%20". The beginning of a name is enough.
Result<std::string> FormatTeams(const std::vector<TeamRow>& rows, const std::vector<std::string>& fields,
                                const TableStyle& style);

inline constexpr std::string_view kShareFields = "account,user,rawshares,normshares,rawusage,effectvusage,fairshare";
inline constexpr std::string_view kShareLong =
    "account,user,rawshares,normshares,rawusage,normusage,effectvusage,fairshare,levelfs,grptresmins,tresrunmins";
/// sshare: the tree with shares and usage. RawUsage is GPU-seconds in the budget's period. FairShare is 2^-(fraction of
/// the usage / fraction of the shares). Source: "Priority factors" in Slurm's manual before Fair Tree.
std::vector<TeamRow> ShareRows(const wire::TeamsView& teams, const TeamScene& scene);
Result<std::string> FormatShares(const std::vector<TeamRow>& rows, const std::vector<std::string>& fields,
                                 const TableStyle& style);

}  // namespace divvy::cli::slurm
