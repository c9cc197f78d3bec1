#include "control/books/team_registry.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "control/books/team_text.h"

namespace divvy {
namespace {

constexpr double kMostAmount = 1e9;
constexpr std::int64_t kMostJobs = 1'000'000'000;
constexpr std::int64_t kMostGpus = 1'000'000;

/// Valid row names: they appear in paths, settings and tables.
Status CheckName(std::string_view name, std::string_view what) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  const bool is_good = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_plain) &&
                       name.front() != '-' && name.front() != '.';
  if (is_good) return {};
  return InvalidArgument("'" + std::string(name.substr(0, 64)) + "' is not a valid name of a " + std::string(what) +
                         "; write letters, digits, '.', '_' and '-', 64 at most");
}

/// Names of operating system users and groups may have other characters. They are stored in blank-separated lists.
Status CheckMember(std::string_view name) {
  const bool is_good = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != ',';
  });
  if (is_good) return {};
  return InvalidArgument("'" + std::string(name.substr(0, 64)) + "' is not a name of a user or group");
}

Result<std::int64_t> MilliOf(double amount, std::string_view what) {
  if (!(amount >= 0) || amount > kMostAmount) {
    return InvalidArgument(std::string(what) + " is a number from 0 to " +
                           std::to_string(static_cast<std::int64_t>(kMostAmount)));
  }
  return static_cast<std::int64_t>(std::llround(amount * 1000));
}

// Rows store thousandths of GPUs; the engine uses finer parts.
std::int64_t PartsOf(const std::optional<std::int64_t>& milli) {
  return milli ? *milli * (placement::kGpuParts / 1000) : kNoBound;
}

Result<std::int64_t> CountOf(std::int64_t count, std::string_view what) {
  if (count < 0 || count > kMostJobs) return InvalidArgument(std::string(what) + " is a whole number, 0 or more");
  return count;
}

Status ApplyCaps(const CapsChange& change, Caps& caps) {
  if (change.running) {
    DIVVY_TRY(caps.running, CountOf(*change.running, "the limit on running jobs"));
  }
  if (change.queued) {
    DIVVY_TRY(caps.queued, CountOf(*change.queued, "the limit on queued jobs"));
  }
  if (change.gpu_hours) {
    DIVVY_TRY(caps.gpu_hours_milli, MilliOf(*change.gpu_hours, "the budget of GPU-hours"));
  }
  if (change.cost) {
    DIVVY_TRY(caps.cost_milli, MilliOf(*change.cost, "the cost budget"));
  }
  if (!change.period) return {};
  for (const BudgetPeriod period : {BudgetPeriod::kDay, BudgetPeriod::kWeek, BudgetPeriod::kMonth}) {
    if (*change.period != Name(period)) continue;
    caps.period = period;
    return {};
  }
  return InvalidArgument("'" + *change.period + "' is not a period: expected day, week or month");
}

bool ClearCap(const std::string& what, Caps& caps) {
  if (what == "running") caps.running.reset();
  else if (what == "queued") caps.queued.reset();
  else if (what == "gpu_hours") caps.gpu_hours_milli.reset();
  else if (what == "cost") caps.cost_milli.reset();
  else return false;
  return true;
}

Status ChangeNames(std::vector<std::string>& names, const std::vector<std::string>& added,
                   const std::vector<std::string>& removed, const std::string& team) {
  for (const std::string& name : removed) {
    if (std::erase(names, name) == 0) return NotFound("'" + name + "' is not a member of team " + team);
  }
  for (const std::string& name : added) {
    DIVVY_CHECK(CheckMember(name));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return {};
}

Error FromFile(const std::string& what) {
  return FailedPrecondition(what + " is set in divvy.toml; change it there and restart the daemon");
}

std::string Gpus(std::int64_t milli) { return FormatMilli(milli) + (milli == 1000 ? " GPU" : " GPUs"); }

}  // namespace

std::string FormatMilli(std::int64_t milli) {
  std::string text = std::to_string(milli / 1000);
  const std::int64_t rest = milli % 1000;
  if (rest == 0) return text;
  std::string digits = std::to_string(1000 + rest).substr(1);
  while (digits.back() == '0') digits.pop_back();
  return text + "." + digits;
}

// --- Rows --------------------------------------------------------------------------------------------------------

Status TeamRegistry::CheckAbove(const TeamRow& row) const {
  const std::string name = "team " + row.name;
  std::size_t steps = 0;
  for (std::string_view at = row.parent; !at.empty(); at = Find(at)->parent) {
    if (++steps > teams_.size() + 1) return InvalidArgument(name + ": its parent teams form a cycle");
    if (at == row.name)
      return InvalidArgument(name + " would be its own ancestor: its parent " + row.parent + " is below it");
    if (Find(at) == nullptr)
      return NotFound(name + ": there is no team " + std::string(at) + " to be its parent; divvy teams lists them");
  }
  const auto beyond = [&](std::string_view what, const auto& amount, const TeamRow* above, std::string_view than,
                          const auto& most) -> Status {
    if (!amount || !most || *amount <= *most) return {};
    return InvalidArgument(name + ": its " + std::string(what) + " of " + Gpus(*amount) + " is above the " +
                           std::string(than) + " of " + above->name + ", " + Gpus(*most));
  };
  for (const TeamRow* above = Find(row.parent); above != nullptr; above = Find(above->parent)) {
    DIVVY_CHECK(beyond("quota", row.quota_milli, above, "quota", above->quota_milli));
    DIVVY_CHECK(beyond("limit", row.limit_milli, above, "limit", above->limit_milli));
    DIVVY_CHECK(beyond("quota", row.quota_milli, above, "limit", above->limit_milli));
  }
  return {};
}

Status TeamRegistry::Check(const TeamRow& row) const {
  const std::string name = "team " + row.name;
  if (row.quota_milli && row.limit_milli && *row.limit_milli < *row.quota_milli) {
    return InvalidArgument(name + ": its limit of " + Gpus(*row.limit_milli) + " is below its quota of " +
                           Gpus(*row.quota_milli));
  }
  DIVVY_CHECK(CheckAbove(row));
  for (const auto& [other, below] : teams_) {
    const std::vector<const TeamRow*> path = PathOf(other);
    const bool is_below = std::ranges::any_of(path, [&](const TeamRow* at) { return at->parent == row.name; });
    const bool is_beyond = (row.quota_milli && below.quota_milli && *below.quota_milli > *row.quota_milli) ||
                           (row.limit_milli && below.limit_milli && *below.limit_milli > *row.limit_milli) ||
                           (row.limit_milli && below.quota_milli && *below.quota_milli > *row.limit_milli);
    if (is_below && is_beyond)
      return InvalidArgument(name + ": team " + other + " below it has more; lower the quota or limit there first");
  }
  return {};
}

Result<TeamRegistry::Setting> TeamRegistry::Set(const TeamChange& change) {
  DIVVY_CHECK(CheckName(change.name, "team"));
  const TeamRow* old = Find(change.name);
  if (change.is_new && old != nullptr)
    return Error{ErrorCode::kAlreadyExists, "there is a team " + change.name + " already; divvy teams set changes it"};
  if (!change.is_new && old == nullptr)
    return NotFound("there is no team " + change.name + "; divvy teams add " + change.name + " creates it");
  if (old != nullptr && old->is_from_file) return FromFile("team " + change.name);
  TeamRow row = old == nullptr ? TeamRow() : *old;
  row.name = change.name;
  for (const std::string& what : change.clear) {
    if (what == "parent") row.parent.clear();
    else if (what == "quota") row.quota_milli.reset();
    else if (what == "limit") row.limit_milli.reset();
    else if (!ClearCap(what, row.caps)) return InvalidArgument("a team has no '" + what + "' to clear");
  }
  if (change.parent) row.parent = *change.parent;
  if (change.quota) {
    DIVVY_TRY(row.quota_milli, MilliOf(*change.quota, "a quota"));
  }
  if (change.limit) {
    DIVVY_TRY(row.limit_milli, MilliOf(*change.limit, "a limit"));
  }
  if (change.weight) {
    if (*change.weight < 0 || *change.weight > 1'000'000) return InvalidArgument("a weight goes from 0 to 1000000");
    row.weight = *change.weight;
  }
  if (change.priority) {
    if (std::abs(*change.priority) > 1'000'000) return InvalidArgument("a priority goes from -1000000 to 1000000");
    row.priority = *change.priority;
  }
  DIVVY_CHECK(ChangeNames(row.users, change.add_users, change.remove_users, row.name));
  DIVVY_CHECK(ChangeNames(row.groups, change.add_groups, change.remove_groups, row.name));
  DIVVY_CHECK(ChangeNames(row.leads, change.add_leads, change.remove_leads, row.name));
  DIVVY_CHECK(ApplyCaps(change.caps, row.caps));
  DIVVY_CHECK(Check(row));
  Setting setting{std::string(kTeamPrefix) + row.name, FormatTeam(row)};
  const std::string name = row.name;
  teams_.insert_or_assign(name, std::move(row));
  Reindex();
  return setting;
}

Result<TeamRegistry::Setting> TeamRegistry::Remove(const std::string& name) {
  const TeamRow* row = Find(name);
  if (row == nullptr) return NotFound("there is no team " + name);
  if (row->is_from_file) return FromFile("team " + name);
  for (const auto& [other, below] : teams_) {
    if (below.parent == name)
      return FailedPrecondition("team " + name + " has team " + other + " below it; remove or move that first");
  }
  for (const auto& [user, of] : users_) {
    if (of.team == name)
      return FailedPrecondition("team " + name + " is the default of user " + user + "; change that first");
  }
  teams_.erase(name);
  Reindex();
  return Setting{std::string(kTeamPrefix) + name, ""};
}

Result<TeamRegistry::Setting> TeamRegistry::SetUser(const UserChange& change) {
  DIVVY_CHECK(CheckMember(change.user));
  const auto old = users_.find(change.user);
  if (old != users_.end() && old->second.is_from_file) return FromFile("user " + change.user);
  UserRow row = old == users_.end() ? UserRow() : old->second;
  row.user = change.user;
  for (const std::string& what : change.clear) {
    if (what == "all") {
      if (old == users_.end()) return NotFound("user " + change.user + " has no settings");
      users_.erase(old);
      return Setting{std::string(kTeamUserPrefix) + change.user, ""};
    }
    if (what == "team") row.team.clear();
    else if (what == "gpus") row.gpus.reset();
    else if (!ClearCap(what, row.caps)) return InvalidArgument("a user has no '" + what + "' to clear");
  }
  if (change.team) {
    if (change.user == "*" && !change.team->empty())
      return InvalidArgument("a default team is set for one user; a team with the user * admits everybody");
    if (Find(*change.team) == nullptr) return NotFound("there is no team " + *change.team + "; divvy teams lists them");
    row.team = *change.team;
  }
  if (change.gpus) {
    if (*change.gpus < 0 || *change.gpus > kMostGpus)
      return InvalidArgument(
          "the limit on GPUs at once is a whole number from 0 to 1000000; without one there is no limit");
    row.gpus = change.gpus;
  }
  DIVVY_CHECK(ApplyCaps(change.caps, row.caps));
  Setting setting{std::string(kTeamUserPrefix) + row.user, FormatUser(row)};
  users_.insert_or_assign(change.user, std::move(row));
  return setting;
}

Result<TeamRegistry::Setting> TeamRegistry::SetQuotas(bool are_on) {
  if (are_quotas_from_file_) return FromFile("whether quotas are on");
  are_quotas_on_ = are_on;
  return Setting{std::string(kQuotasKey), are_on ? "on" : ""};
}

Status TeamRegistry::AddFile(const TeamsFile& file) {
  TeamRegistry with = *this;
  for (const TeamRow& row : file.teams) {
    DIVVY_CHECK(CheckName(row.name, "team"));
    for (const auto* names : {&row.users, &row.groups, &row.leads}) {
      for (const std::string& name : *names) DIVVY_CHECK(CheckMember(name));
    }
    if (!with.teams_.emplace(row.name, row).second) return InvalidArgument("team " + row.name + " is defined twice");
    with.teams_[row.name].is_from_file = true;
  }
  for (const auto& [name, row] : with.teams_) DIVVY_CHECK(with.Check(row));
  for (const UserRow& row : file.users) {
    DIVVY_CHECK(CheckMember(row.user));
    if (!row.team.empty() && with.Find(row.team) == nullptr)
      return NotFound("user " + row.user + ": there is no team " + row.team);
    with.users_[row.user] = row;
    with.users_[row.user].is_from_file = true;
  }
  with.prices_ = file.prices;
  if (file.are_quotas_on) {
    with.are_quotas_on_ = *file.are_quotas_on;
    with.are_quotas_from_file_ = true;
  }
  with.Reindex();
  *this = std::move(with);
  return {};
}

bool TeamRegistry::LoadSetting(std::string_view key, std::string_view text) {
  if (key == kQuotasKey) {
    if (!are_quotas_from_file_) are_quotas_on_ = text == "on";
    return true;
  }
  if (key.starts_with(kTeamPrefix)) {
    if (auto row = ParseTeam(key.substr(kTeamPrefix.size()), text)) teams_.emplace(row->name, *row);
    return true;
  }
  if (!key.starts_with(kTeamUserPrefix)) return false;
  if (auto row = ParseUser(key.substr(kTeamUserPrefix.size()), text)) users_.emplace(row->user, *row);
  return true;
}

std::vector<std::string> TeamRegistry::Settle() {
  std::vector<std::string> said;
  for (auto& [name, row] : teams_) {
    if (row.parent.empty() || row.is_from_file) continue;
    std::set<std::string_view> seen{name};
    bool is_sound = true;
    for (std::string_view at = row.parent; !at.empty() && is_sound;) {
      const TeamRow* above = Find(at);
      is_sound = above != nullptr && seen.insert(at).second;
      if (above != nullptr) at = above->parent;
    }
    if (is_sound) continue;
    said.push_back("team " + name + " is a top-level team now: its parent " + row.parent + " is gone");
    row.parent.clear();
  }
  for (auto& [user, row] : users_) {
    if (row.team.empty() || Find(row.team) != nullptr) continue;
    said.push_back("user " + user + " has no default team now: " + row.team + " is gone");
    row.team.clear();
  }
  Reindex();
  return said;
}

// --- Questions ---------------------------------------------------------------------------------------------------

const TeamRow* TeamRegistry::Find(std::string_view name) const {
  const auto at = teams_.find(name);
  return at == teams_.end() ? nullptr : &at->second;
}

const UserRow* TeamRegistry::UserOf(std::string_view user) const {
  auto at = users_.find(user);
  if (at == users_.end()) at = users_.find("*");
  return at == users_.end() ? nullptr : &at->second;
}

std::vector<const TeamRow*> TeamRegistry::PathOf(std::string_view name) const {
  std::vector<const TeamRow*> path;
  for (const TeamRow* at = Find(name); at != nullptr && path.size() <= teams_.size(); at = Find(at->parent)) {
    path.push_back(at);
  }
  return path;
}

bool TeamRegistry::IsLedBy(std::string_view team, std::string_view user) const {
  return std::ranges::any_of(
      PathOf(team), [&](const TeamRow* row) { return std::ranges::find(row->leads, user) != row->leads.end(); });
}

bool TeamRegistry::LeadsAllOf(std::string_view lead, std::string_view user) const {
  if (user == "*") return false;
  bool is_member = false;
  for (const auto& [name, row] : teams_) {
    if (std::ranges::find(row.users, user) == row.users.end()) continue;
    if (!IsLedBy(name, lead)) return false;
    is_member = true;
  }
  return is_member;
}

std::vector<std::string> TeamRegistry::GroupsNamed() const {
  std::set<std::string> groups;
  for (const auto& [name, row] : teams_) groups.insert(row.groups.begin(), row.groups.end());
  return {groups.begin(), groups.end()};
}

bool TeamRegistry::IsMember(const TeamRow& row, const Person& person) const {
  if (std::ranges::any_of(row.users, [&](const std::string& name) { return name == "*" || name == person.user; }))
    return true;
  return std::ranges::any_of(row.groups, [&](const std::string& group) {
    return std::ranges::find(person.groups, group) != person.groups.end();
  });
}

Result<std::string> TeamRegistry::TeamFor(const Person& person, std::string_view wanted) const {
  if (teams_.empty() && !are_quotas_on_) return std::string(wanted);  // Without teams, the team name is only a label.
  const UserRow* own = UserOf(person.user);
  std::vector<std::string> names;
  for (const auto& [name, row] : teams_) {
    if (IsMember(row, person)) names.push_back(name);
  }
  std::string team(wanted);
  if (team.empty() && own != nullptr) team = own->team;
  if (team.empty() && names.size() == 1) team = names.front();
  if (team.empty() && names.size() > 1) {
    return InvalidArgument(person.user + " is in the teams " + Join(names, ", ") +
                           "; choose the team whose share this job uses: --team " + names.front());
  }
  if (team.empty()) {
    if (!are_quotas_on_ || person.is_admin) return team;
    return PermissionDenied(person.user +
                            " is in no team, and while quotas are on, users without a team have no access; ask an "
                            "administrator: divvy teams "
                            "set NAME --user " +
                            person.user);
  }
  if (Find(team) == nullptr) {
    return NotFound("there is no team " + team +
                    (names.empty() ? "; divvy teams lists them" : "; yours: " + Join(names, ", ")));
  }
  const bool is_member = std::ranges::find(names, team) != names.end();
  if (!is_member && !person.is_admin && (own == nullptr || own->team != team)) {
    return PermissionDenied(
        person.user + " is not in team " + team +
        (names.empty() ? "; an administrator can change that: divvy teams set " + team + " --user " + person.user
                       : "; yours: " + Join(names, ", ")));
  }
  if (std::string bar = BarOf(team); !bar.empty()) return PermissionDenied(bar);
  return team;
}

std::string TeamRegistry::BarOf(std::string_view team) const {
  if (!are_quotas_on_) return "";
  const std::vector<const TeamRow*> path = PathOf(team);
  bool has_row = false;
  for (const TeamRow* row : path) {
    if (row->quota_milli && *row->quota_milli == 0) return "team " + row->name + " is blocked: its quota is 0";
    has_row = has_row || row->quota_milli.has_value();
  }
  if (path.empty() || has_row) return "";
  return "team " + std::string(team) + " has no quota, and while quotas are on, teams without a quota have no access";
}

std::vector<const TeamRow*> TeamRegistry::InOrder() const {
  std::map<std::string_view, std::vector<const TeamRow*>> below;
  for (const auto& [name, row] : teams_) below[row.parent].push_back(&row);
  std::vector<const TeamRow*> order;
  std::vector<const TeamRow*> open(below[""].rbegin(), below[""].rend());
  while (!open.empty()) {
    const TeamRow* row = open.back();
    open.pop_back();
    order.push_back(row);
    const auto& children = below[row->name];
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  return order;
}

std::vector<core::TeamSpec> TeamRegistry::Specs() const {
  std::vector<core::TeamSpec> specs;
  std::map<std::string_view, core::TeamIndex> indices;
  for (const TeamRow* row : InOrder()) {
    core::TeamSpec spec;
    spec.name = row->name;
    spec.parent = row->parent.empty() ? core::kRootTeam : indices.at(row->parent);
    const bool is_barred = !BarOf(row->name).empty() && !HasAccessBelow(row->name);
    spec.quota_parts = is_barred ? 0 : PartsOf(row->quota_milli);
    spec.limit_parts = is_barred ? 0 : PartsOf(row->limit_milli);
    spec.weight = static_cast<std::uint64_t>(row->weight);
    spec.priority = static_cast<int>(row->priority);
    specs.push_back(std::move(spec));
    indices[row->name] = static_cast<core::TeamIndex>(specs.size());
  }
  return specs;
}

bool TeamRegistry::HasAccessBelow(std::string_view name) const {
  return std::ranges::any_of(teams_, [&](const auto& other) {
    const auto path = PathOf(other.first);
    return BarOf(other.first).empty() &&
           std::ranges::any_of(path, [&](const TeamRow* row) { return row->name == name; });
  });
}

core::TeamIndex TeamRegistry::IndexOf(std::string_view name) const {
  const auto at = indices_.find(name);
  return at == indices_.end() ? core::kRootTeam : at->second;
}

void TeamRegistry::Reindex() {
  indices_.clear();
  core::TeamIndex index = core::kRootTeam;
  for (const TeamRow* row : InOrder()) indices_[row->name] = ++index;
}

std::int64_t TeamRegistry::PriceOf(std::string_view gpu_model) const {
  const std::string model = ToLower(gpu_model);
  const GpuPrice* best = nullptr;
  for (const GpuPrice& price : prices_) {
    if (model.find(ToLower(price.model)) == std::string::npos) continue;
    if (best == nullptr || price.model.size() > best->model.size()) best = &price;
  }
  return best == nullptr ? 0 : best->hour_milli;
}

}  // namespace divvy
