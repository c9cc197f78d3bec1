#include "cli/shims/slurm_look/slurm_teams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <span>

#include "base/text.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

constexpr std::string_view kRoot = "root";
constexpr std::string_view kQos = "normal";

struct TeamField {
  std::string_view name;
  std::string_view header;
  int width = 10;
};

/// All fields, with the widths of Slurm 22.05. If a word is the beginning of several names, it means the first of them.
constexpr auto kFields = std::to_array<TeamField>({
    {"account", "Account", 10},
    {"adminlevel", "Admin", 9},
    {"cluster", "Cluster", 10},
    {"classification", "Class", 9},
    {"controlhost", "ControlHost", 15},
    {"controlport", "ControlPort", 12},
    {"coordinators", "Coord Accounts", 20},
    {"defaultaccount", "Def Acct", 10},
    {"defaultqos", "Def QOS", 9},
    {"description", "Descr", 20},
    {"fairshare", "Share", 9},
    {"flags", "Flags", 20},
    {"gracetime", "GraceTime", 10},
    {"grpjobs", "GrpJobs", 7},
    {"grpsubmitjobs", "GrpSubmit", 9},
    {"grptres", "GrpTRES", 13},
    {"grptresmins", "GrpTRESMins", 13},
    {"grptresrunmins", "GrpTRESRunMin", 13},
    {"grpwall", "GrpWall", 11},
    {"id", "ID", 6},
    {"maxjobs", "MaxJobs", 7},
    {"maxjobsperaccount", "MaxJobsPA", 9},
    {"maxjobsperuser", "MaxJobsPU", 9},
    {"maxsubmitjobs", "MaxSubmit", 9},
    {"maxsubmitjobsperaccount", "MaxSubmitPA", 11},
    {"maxsubmitjobsperuser", "MaxSubmitPU", 11},
    {"maxtresperjob", "MaxTRES", 13},
    {"maxtresperaccount", "MaxTRESPA", 13},
    {"maxtrespernode", "MaxTRESPerNode", 14},
    {"maxtresperuser", "MaxTRESPU", 13},
    {"maxtresmins", "MaxTRESMins", 13},
    {"maxtres", "MaxTRES", 13},
    {"maxwalldurationperjob", "MaxWall", 11},
    {"mintresperjob", "MinTRES", 13},
    {"name", "Name", 10},
    {"organization", "Org", 20},
    {"parentname", "Par Name", 10},
    {"partition", "Partition", 10},
    {"preempt", "Preempt", 10},
    {"preemptmode", "PreemptMode", 11},
    {"preemptexempttime", "PreemptExemptTime", 19},
    {"priority", "Priority", 10},
    {"qos", "QOS", 20},
    {"rpc", "RPC", 5},
    {"share", "Share", 9},
    {"type", "Type", 8},
    {"usagefactor", "UsageFactor", 11},
    {"usagethreshold", "UsageThres", 10},
    {"user", "User", 10},
    {"wckeys", "WCKeys", 20},
});

constexpr auto kShares = std::to_array<TeamField>({
    {"account", "Account", -20},
    {"cluster", "Cluster", 10},
    {"effectvusage", "EffectvUsage", 13},
    {"fairshare", "FairShare", 10},
    {"grptresmins", "GrpTRESMins", 30},
    {"id", "ID", 6},
    {"levelfs", "LevelFS", 10},
    {"normshares", "NormShares", 11},
    {"normusage", "NormUsage", 11},
    {"partition", "Partition", 12},
    {"rawshares", "RawShares", 10},
    {"rawusage", "RawUsage", 11},
    {"tresrunmins", "TRESRunMins", 30},
    {"user", "User", 10},
});

std::string TeamNumber(double number) {
  const auto whole = static_cast<std::int64_t>(number);
  if (static_cast<double>(whole) == number) return std::to_string(whole);
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

std::string Six(double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", number);
  return text;
}

template <typename T>
std::string OrEmpty(const std::optional<T>& number) {
  return number ? TeamNumber(static_cast<double>(*number)) : "";
}

template <typename T>
std::string GpusText(const std::optional<T>& gpus) {
  return gpus ? "gres/gpu=" + TeamNumber(static_cast<double>(*gpus)) : "";
}

/// The users of a team, in ascending order: listed members, users whose default it is, and the caller if a member.
std::vector<std::string> MembersOf(const wire::TeamView& team, const wire::TeamsView& all, const TeamScene& scene) {
  std::vector<std::string> members;
  bool has_caller = false;
  for (const std::string& user : team.users) {
    if (user == "*") has_caller = true;
    else members.push_back(user);
  }
  for (const std::string& group : team.groups)
    has_caller = has_caller || std::ranges::find(scene.groups, group) != scene.groups.end();
  if (has_caller) members.push_back(scene.user);
  for (const wire::TeamView& user : all.users) {
    if (user.team == team.name) members.push_back(user.name);
  }
  std::ranges::sort(members);
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

const wire::TeamView* UserRow(const wire::TeamsView& all, const std::string& user) {
  const auto at = std::ranges::find(all.users, user, &wire::TeamView::name);
  if (at != all.users.end()) return &*at;
  const auto everybody = std::ranges::find(all.users, "*", &wire::TeamView::name);
  return everybody == all.users.end() ? nullptr : &*everybody;
}

/// All known users in ascending order, including root.
std::vector<std::string> AllUsers(const wire::TeamsView& all, const TeamScene& scene) {
  std::vector<std::string> users = {std::string(kRoot), scene.user};
  for (const wire::TeamView& user : all.users) users.push_back(user.name);
  for (const wire::TeamView& team : all.teams) users.insert(users.end(), team.users.begin(), team.users.end());
  std::erase(users, "*");
  std::ranges::sort(users);
  users.erase(std::unique(users.begin(), users.end()), users.end());
  return users;
}

/// Users without a team; they belong to the account root.
std::vector<std::string> RootMembers(const wire::TeamsView& all, const TeamScene& scene) {
  std::vector<std::string> users = AllUsers(all, scene);
  std::erase_if(users, [&](const std::string& user) {
    return user != kRoot && std::ranges::any_of(all.teams, [&](const wire::TeamView& team) {
             const auto members = MembersOf(team, all, scene);
             return std::ranges::find(members, user) != members.end();
           });
  });
  return users;
}

std::string DefaultAccount(const std::string& user, const wire::TeamsView& all, const TeamScene& scene) {
  const wire::TeamView* row = UserRow(all, user);
  if (row != nullptr && !row->team.empty()) return row->team;
  for (const wire::TeamView& team : all.teams) {
    const auto members = MembersOf(team, all, scene);
    if (std::ranges::find(members, user) != members.end()) return team.name;
  }
  return std::string(kRoot);
}

TeamRow Association(const std::string& account, const std::string& user) {
  return {{"cluster", std::string(dialect::kSlurmCluster)},
          {"account", account},
          {"user", user},
          {"name", user.empty() ? account : user},
          {"share", "1"},
          {"fairshare", "1"},
          {"qos", std::string(kQos)},
          {"defaultqos", std::string(kQos)}};
}

void SetBudget(const wire::TeamView& from, TeamRow& row) {
  if (from.budget_gpu_hours) row["grptresmins"] = "gres/gpu=" + TeamNumber(std::floor(*from.budget_gpu_hours * 60));
}

TeamRow AssociationOf(const wire::TeamView& team) {
  TeamRow row = Association(team.name, "");
  row["parentname"] = team.parent.empty() ? kRoot : team.parent;
  row["share"] = row["fairshare"] = std::to_string(team.weight);
  if (team.priority != 0) row["priority"] = std::to_string(team.priority);
  row["grptres"] = GpusText(team.limit);
  row["grpjobs"] = OrEmpty(team.running_limit);
  row["grpsubmitjobs"] = OrEmpty(team.queued_limit);
  SetBudget(team, row);
  return row;
}

TeamRow AssociationOf(const std::string& account, const std::string& user, const wire::TeamsView& all,
                      const TeamScene& scene) {
  TeamRow row = Association(account, user);
  row["defaultaccount"] = DefaultAccount(user, all, scene);
  if (const wire::TeamView* caps = UserRow(all, user)) {
    row["grptres"] = GpusText(caps->gpu_limit);
    row["maxjobs"] = OrEmpty(caps->running_limit);
    row["maxsubmitjobs"] = OrEmpty(caps->queued_limit);
    SetBudget(*caps, row);
  }
  return row;
}

std::vector<TeamRow> Associations(const wire::TeamsView& all, const TeamScene& scene) {
  std::vector<TeamRow> rows = {Association(std::string(kRoot), "")};
  for (const std::string& user : RootMembers(all, scene))
    rows.push_back(AssociationOf(std::string(kRoot), user, all, scene));
  for (const wire::TeamView& team : all.teams) {
    rows.push_back(AssociationOf(team));
    for (const std::string& user : MembersOf(team, all, scene))
      rows.push_back(AssociationOf(team.name, user, all, scene));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i]["id"] = std::to_string(i + 1);
  return rows;
}

std::string AdminLevel(const std::string& user, const TeamScene& scene) {
  return user == kRoot || user == scene.owner ? "Administrator" : "None";
}

std::vector<TeamRow> Users(const wire::TeamsView& all, const TeamScene& scene, bool has_associations) {
  std::vector<TeamRow> rows;
  if (has_associations) {
    for (TeamRow& row : Associations(all, scene)) {
      if (row["user"].empty()) continue;
      row["adminlevel"] = AdminLevel(row["user"], scene);
      rows.push_back(std::move(row));
    }
    std::ranges::stable_sort(rows, {}, [](const TeamRow& row) { return row.at("user"); });
    return rows;
  }
  for (const std::string& user : AllUsers(all, scene)) {
    rows.push_back({{"user", user},
                    {"name", user},
                    {"defaultaccount", DefaultAccount(user, all, scene)},
                    {"adminlevel", AdminLevel(user, scene)}});
  }
  return rows;
}

std::vector<TeamRow> Accounts(const wire::TeamsView& all) {
  std::vector<TeamRow> rows = {{{"account", std::string(kRoot)},
                                {"name", std::string(kRoot)},
                                {"description", "everybody of no team"},
                                {"organization", std::string(kRoot)}}};
  for (const wire::TeamView& team : all.teams) {
    rows.push_back({{"account", team.name},
                    {"name", team.name},
                    {"description", team.name},
                    {"organization", team.parent.empty() ? team.name : team.parent}});
  }
  return rows;
}

template <std::size_t N>
const TeamField* FindField(const std::array<TeamField, N>& fields, std::string_view name) {
  const std::string lower = ToLower(name);
  for (const TeamField& field : fields) {
    if (field.name == lower) return &field;
  }
  for (const TeamField& field : fields) {
    if (!lower.empty() && field.name.starts_with(lower)) return &field;
  }
  return nullptr;
}

template <std::size_t N>
Result<std::string> Format(const std::array<TeamField, N>& known, const std::vector<TeamRow>& rows,
                           const std::vector<std::string>& fields, const TableStyle& style) {
  std::vector<TableColumn> columns;
  std::vector<std::string_view> names;
  for (const std::string& text : fields) {
    DIVVY_TRY(const WantedField wanted, ReadWantedField(text));
    const TeamField* field = FindField(known, wanted.name);
    if (field == nullptr) return InvalidArgument("Unknown field '" + wanted.name + "'");
    columns.push_back({std::string(field->header), wanted.width != 0 ? wanted.width : field->width});
    names.push_back(field->name);
  }
  std::vector<std::vector<std::string>> cells;
  for (const TeamRow& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (const std::string_view name : names) {
      const auto at = row.find(name);
      line.push_back(at == row.end() ? "" : at->second);
    }
  }
  return DrawTable(columns, cells, style);
}

/// One line of sshare, among its siblings.
struct Share {
  std::string account;
  std::string user;
  double weight = 1;
  double siblings = 1;  // The sum of the siblings' weights, including its own.
  double used_hours = 0;
  std::int64_t depth = 0;
};

TeamRow ShareRow(const Share& share, double used_in_all) {
  const double norm = share.siblings > 0 ? share.weight / share.siblings : 0;
  const double usage = used_in_all > 0 ? share.used_hours / used_in_all : 0;
  const double fair = norm > 0 ? std::exp2(-usage / norm) : 0;
  TeamRow row = {{"cluster", std::string(dialect::kSlurmCluster)},
                 {"account", std::string(static_cast<std::size_t>(share.depth), ' ') + share.account},
                 {"user", share.user},
                 {"rawshares", TeamNumber(share.weight)},
                 {"normshares", Six(norm)},
                 {"rawusage", TeamNumber(std::floor(share.used_hours * 3600))},
                 {"normusage", Six(usage)},
                 {"effectvusage", Six(usage)}};
  if (!share.user.empty()) row["fairshare"] = Six(fair);
  row["levelfs"] = usage > 0 ? Six(norm / usage) : "inf";
  return row;
}

/// The usage of the team and of all teams below it.
double UsedInTree(const wire::TeamsView& all, const std::string& team) {
  double used = 0;
  for (const wire::TeamMemberView& member : all.members) {
    if (member.team == team) used += member.used_gpu_hours;
  }
  for (const wire::TeamView& other : all.teams) {
    if (other.parent == team) used += UsedInTree(all, other.name);
  }
  return used;
}

}  // namespace

Result<TeamEntity> TeamEntityOf(std::string_view word) {
  const std::string lower = ToLower(word);
  const auto is = [&](std::string_view name) { return lower.size() >= 2 && name.starts_with(lower); };
  if (is("users")) return TeamEntity::kUser;
  if (is("accounts")) return TeamEntity::kAccount;
  if (is("associations")) return TeamEntity::kAssociation;
  if (is("clusters")) return TeamEntity::kCluster;
  if (is("qos")) return TeamEntity::kQos;
  if (is("tres")) return TeamEntity::kTres;
  return NotFound("there is no '" + std::string(word) +
                  "' to show here; user, account, association, cluster, qos, tres");
}

std::string_view TeamEntityKey(TeamEntity entity) {
  constexpr std::array<std::string_view, 6> kKeys = {"users", "accounts", "associations", "clusters", "qos", "tres"};
  return kKeys[static_cast<std::size_t>(entity)];
}

std::vector<TeamRow> TeamRows(TeamEntity entity, const wire::TeamsView& teams, const TeamScene& scene,
                              bool has_associations) {
  const std::string cluster(dialect::kSlurmCluster);
  switch (entity) {
    case TeamEntity::kUser:
      return Users(teams, scene, has_associations);
    case TeamEntity::kAccount:
      if (!has_associations) return Accounts(teams);
      return Associations(teams, scene);
    case TeamEntity::kAssociation:
      return Associations(teams, scene);
    case TeamEntity::kCluster:
      return {{{"cluster", cluster},
               {"name", cluster},
               {"controlhost", scene.host},
               {"controlport", "0"},
               {"rpc", "0"},
               {"share", "1"},
               {"fairshare", "1"},
               {"qos", std::string(kQos)},
               {"defaultqos", std::string(kQos)}}};
    case TeamEntity::kQos:
      return {{{"name", std::string(kQos)},
               {"qos", std::string(kQos)},
               {"id", "1"},
               {"priority", "0"},
               {"gracetime", "00:00:00"},
               {"preemptmode", "cluster"},
               {"usagefactor", "1.000000"}}};
    case TeamEntity::kTres:
      break;
  }
  return {{{"type", "cpu"}, {"id", "1"}},
          {{"type", "mem"}, {"id", "2"}},
          {{"type", "node"}, {"id", "4"}},
          {{"type", "billing"}, {"id", "5"}},
          {{"type", "gres"}, {"name", "gpu"}, {"id", "1001"}}};
}

std::string_view TeamFieldsOf(TeamEntity entity, bool has_associations) {
  switch (entity) {
    case TeamEntity::kUser:
      return has_associations ? "user,defaultaccount,adminlevel,cluster,account,partition,share,priority,maxjobs,"
                                "maxtresperjob,maxsubmitjobs,maxwalldurationperjob,maxtresmins,qos,defaultqos"
                              : "user,defaultaccount,adminlevel";
    case TeamEntity::kAccount:
      return has_associations ? "account,description,organization,cluster,parentname,user,share,grpjobs,grptres,"
                                "grpsubmitjobs,grpwall,grptresmins,maxjobs,maxtresperjob,maxsubmitjobs,qos,defaultqos"
                              : "account,description,organization";
    case TeamEntity::kAssociation:
      return "cluster,account,user,partition,share,priority,grpjobs,grptres,grpsubmitjobs,grpwall,grptresmins,maxjobs,"
             "maxtresperjob,maxtrespernode,maxsubmitjobs,maxwalldurationperjob,maxtresmins,qos,defaultqos,"
             "grptresrunmins";
    case TeamEntity::kCluster:
      return "cluster,controlhost,controlport,rpc,share,grpjobs,grptres,grpsubmitjobs,maxjobs,maxtresperjob,"
             "maxsubmitjobs,maxwalldurationperjob,qos,defaultqos";
    case TeamEntity::kQos:
      return "name,priority,gracetime,preempt,preemptexempttime,preemptmode,flags,usagethreshold,usagefactor,grptres,"
             "grptresmins,grptresrunmins,grpjobs,grpsubmitjobs,grpwall,maxtresperjob,maxtrespernode,maxtresmins,"
             "maxwalldurationperjob,maxtresperuser,maxjobsperuser,maxsubmitjobsperuser,maxtresperaccount,"
             "maxjobsperaccount,maxsubmitjobsperaccount,mintresperjob";
    case TeamEntity::kTres:
      break;
  }
  return "type,name,id";
}

Result<std::string> FormatTeams(const std::vector<TeamRow>& rows, const std::vector<std::string>& fields,
                                const TableStyle& style) {
  return Format(kFields, rows, fields, style);
}

std::vector<TeamRow> ShareRows(const wire::TeamsView& teams, const TeamScene& scene) {
  double used = 0;
  for (const wire::TeamMemberView& member : teams.members) used += member.used_gpu_hours;
  TeamRow root = ShareRow({.account = std::string(kRoot), .user = "", .used_hours = used}, used);
  root["rawshares"].clear();
  root["normshares"] = "0.000000";
  std::vector<TeamRow> rows = {std::move(root)};
  // Also users who have left the team, because their usage is part of the team's.
  const auto add_users = [&](const std::string& account, const std::string& team, std::vector<std::string> users,
                             std::int64_t depth) {
    std::map<std::string, double> hours;
    for (const wire::TeamMemberView& member : teams.members) {
      if (member.team == team) hours[member.user] += member.used_gpu_hours;
    }
    for (const auto& [user, its] : hours) users.push_back(user);
    std::ranges::sort(users);
    users.erase(std::unique(users.begin(), users.end()), users.end());
    for (const std::string& user : users) {
      rows.push_back(ShareRow({.account = account,
                               .user = user,
                               .siblings = static_cast<double>(users.size()),
                               .used_hours = hours[user],
                               .depth = depth},
                              used));
    }
  };
  add_users(std::string(kRoot), "", RootMembers(teams, scene), 1);
  for (const wire::TeamView& team : teams.teams) {
    Share share{.account = team.name, .user = "", .weight = static_cast<double>(team.weight), .siblings = 0};
    for (const wire::TeamView& other : teams.teams) {
      if (other.parent == team.parent) share.siblings += static_cast<double>(other.weight);
    }
    share.used_hours = UsedInTree(teams, team.name);
    share.depth = team.depth + 1;
    rows.push_back(ShareRow(share, used));
    add_users(team.name, team.name, MembersOf(team, teams, scene), team.depth + 2);
  }
  return rows;
}

Result<std::string> FormatShares(const std::vector<TeamRow>& rows, const std::vector<std::string>& fields,
                                 const TableStyle& style) {
  return Format(kShares, rows, fields, style);
}

}  // namespace divvy::cli::slurm
