#include "control/state/team_rules.h"

#include <algorithm>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"

namespace divvy {
namespace {

constexpr Duration kTeamUsageEvery = std::chrono::minutes(5);

constexpr std::string_view kTeamGroup = "team ";
constexpr std::string_view kUserGroup = "user ";

Status WantsAdmin(const Caller& caller, std::string_view what) {
  if (caller.is_admin) return {};
  return PermissionDenied(std::string(what) + " takes an administrator; " + CallerName(caller) + " is not one");
}

// The engine enforces positive caps; a cap of 0 blocks the team or user (TeamBar).
GroupLimits LimitsOf(const TeamRow& row) { return {static_cast<int>(row.caps.running.value_or(0)), 0}; }
GroupLimits LimitsOf(const UserRow& row) {
  return {static_cast<int>(row.caps.running.value_or(0)), static_cast<int>(row.gpus.value_or(0))};
}

std::int64_t Members(const JobRecord& record) {
  return record.array_count > 0 ? static_cast<std::int64_t>(record.array_waiting.size()) : 1;
}

bool RunsItself(const JobRecord& record) { return record.array_count == 0 && IsActive(record.state); }

/// Returns the first cap of `before` that `after` removes, raises or counts over other periods; "" if there is none.
std::string Lifted(const UserRow& before, const UserRow& after) {
  using Cap = std::optional<std::int64_t>;
  const auto is_lifted = [](const Cap& was, const Cap& is) { return was && (!is || *is > *was); };
  if (is_lifted(before.gpus, after.gpus)) return "gpus";
  if (is_lifted(before.caps.running, after.caps.running)) return "running";
  if (is_lifted(before.caps.queued, after.caps.queued)) return "queued";
  if (is_lifted(before.caps.gpu_hours_milli, after.caps.gpu_hours_milli)) return "gpu-hours";
  if (is_lifted(before.caps.cost_milli, after.caps.cost_milli)) return "cost";
  return before.caps.has_budget() && before.caps.period != after.caps.period ? "period" : "";
}

/// Returns notes on the quota of team `name`, each as "; note: ...": quotas that cannot all be met at once, and jobs
/// that may hold the GPUs of this quota. `gpus` is the number of GPUs of the cluster; 0: no node has joined yet.
std::string QuotaNotes(const TeamRegistry& teams, std::string_view name, std::int64_t gpus) {
  const TeamRow* row = teams.Find(name);
  if (row == nullptr || !row->quota_milli) return "";
  std::int64_t sum = 0;
  for (const TeamRow* other : teams.InOrder()) sum += other->parent == row->parent ? other->quota_milli.value_or(0) : 0;
  const std::string add_up = " add up to " + FormatMilli(sum) + " GPUs, but ";
  if (row->parent.empty()) {
    if (gpus == 0 || sum <= gpus * 1000) return "";
    return "; note: the quotas of the top-level teams" + add_up + "the cluster has " + Plural(gpus, "GPU");
  }
  const TeamRow& parent = *teams.Find(row->parent);
  std::string notes;
  if (parent.quota_milli && sum > *parent.quota_milli) {
    notes = "; note: the quotas of the teams below " + parent.name + add_up + "the quota of " + parent.name + " is " +
            FormatMilli(*parent.quota_milli);
  }
  if (!parent.users.empty() || !parent.groups.empty()) {
    notes += "; note: jobs of team " + parent.name +
             " itself may hold the GPUs of this quota, and are not preempted for team " + row->name;
  }
  return notes;
}

}  // namespace

Result<std::string> TeamRules::SetTeam(const TeamChange& change, const Caller& caller) {
  DIVVY_CHECK(WantsAdmin(caller, "changing teams"));
  DIVVY_TRY(auto setting, teams_.Set(change));
  effects_.KeepSetting(std::move(setting));
  std::int64_t gpus = 0;
  for (const NodeUsage& node : scheduler_.nodes()) gpus += static_cast<std::int64_t>(node.capacity.gpus.size());
  return "team " + change.name + (change.is_new ? " added" : " changed") +
         (change.quota || change.parent ? QuotaNotes(teams_, change.name, gpus) : "");
}

Result<std::string> TeamRules::RemoveTeam(const std::string& name, const Caller& caller,
                                          const ReservationRegistry& reservations) {
  DIVVY_CHECK(WantsAdmin(caller, "removing a team"));
  for (const auto& [id, record] : jobs_.live()) {
    if (record.team == name && teams_.Find(name) != nullptr)
      return FailedPrecondition("team " + name + " has jobs that wait or run, job " + DisplayId(record) +
                                " for one; cancel them or wait for their end");
  }
  for (const auto& [number, reservation] : reservations.all()) {
    if (reservation.team == name)
      return FailedPrecondition("reservation " + std::to_string(number) + " is for team " + name + "; cancel it first");
  }
  DIVVY_TRY(auto setting, teams_.Remove(name));
  effects_.KeepSetting(std::move(setting));
  return "team " + name + " is gone";
}

Result<std::string> TeamRules::SetTeamUser(const UserChange& change, const Caller& caller) {
  DIVVY_CHECK(CheckMaySetUser(change, caller));
  DIVVY_TRY(auto setting, teams_.SetUser(change));
  const bool is_gone = setting.second.empty();
  effects_.KeepSetting(std::move(setting));
  return "user " + change.user + (is_gone ? " has no settings any more" : " is changed");
}

Result<std::string> TeamRules::SetQuotas(bool are_on, const Caller& caller) {
  DIVVY_CHECK(WantsAdmin(caller, "turning quotas on or off"));
  DIVVY_TRY(auto setting, teams_.SetQuotas(are_on));
  effects_.KeepSetting(std::move(setting));
  return std::string(are_on ? "quotas are on: a team without a quota has no access, and a quota of 0 blocks a team"
                            : "quotas are off: they are guaranteed shares, and restrict nobody");
}

Status TeamRules::CheckMaySetUser(const UserChange& change, const Caller& caller) const {
  if (caller.is_admin) return {};
  if (change.user == caller.user.name)
    return PermissionDenied("changing what " + change.user +
                            " may have takes an administrator; users cannot change their own limits");
  if (!teams_.LeadsAllOf(caller.user.name, change.user)) {
    return PermissionDenied("changing what " + change.user +
                            " may have takes an administrator, or one who leads all teams that name " + change.user +
                            "; " + CallerName(caller) + " is neither");
  }
  const bool is_moved =
      change.team || std::ranges::count(change.clear, "team") + std::ranges::count(change.clear, "all") > 0;
  if (is_moved) return PermissionDenied("the team of " + change.user + " can only be changed by an administrator");
  // The settings of a user replace those of the default user "*". So a team lead may not lift a limit of the default
  // user in this way either.
  const UserRow* before = teams_.UserOf(change.user);
  if (before == nullptr) return {};
  TeamRegistry with = teams_;
  DIVVY_CHECK(with.SetUser(change));
  const UserRow* after = with.UserOf(change.user);
  const std::string lifted = Lifted(*before, after == nullptr ? UserRow() : *after);
  if (lifted.empty()) return {};
  return PermissionDenied(lifted + ": " + change.user +
                          (before->user == "*" ? " has the default limit" : " has a limit") +
                          " there, and raising or removing it takes an administrator; leaders of a team may lower it" +
                          (before->user == "*" ? ", or set it again for " + change.user : ""));
}

void TeamRules::LoadTeams(const PoolRegistry& pools) {
  team_warnings_ = teams_.Settle();
  for (const PoolRow& pool : pools.rows()) {
    for (const std::string& team : pool.teams) {
      if (teams_.Find(team) == nullptr)
        team_warnings_.push_back("pool " + pool.name + " is for team " + team + ", which does not exist");
    }
  }
  TellTeams(kNoTime);
  SetTeamCaps();
}

// Returns whether the engine's teams changed. SetTeams resets usage and advance reservations in the engine, so it is
// called only for real changes.
bool TeamRules::TellTeams(Time now) {
  std::vector<core::TeamSpec> specs = teams_.Specs();
  std::string tree;
  for (const core::TeamSpec& spec : specs) {
    tree += spec.name;
    for (const std::int64_t number : {std::int64_t{spec.parent}, spec.quota_parts, spec.limit_parts,
                                      static_cast<std::int64_t>(spec.weight), std::int64_t{spec.priority}}) {
      tree += ' ' + std::to_string(number);
    }
    tree += '\n';
  }
  if (tree == told_teams_) return false;
  told_teams_ = std::move(tree);
  scheduler_.SetTeams(std::move(specs), now);
  return true;
}

void TeamRules::SetTeamCaps() {
  std::map<std::string, GroupLimits> caps;
  const auto add = [&](std::string group, const GroupLimits& limits) {
    if (limits.any()) caps[std::move(group)] = limits;
  };
  for (const auto& [name, row] : teams_.teams()) add(std::string(kTeamGroup) + name, LimitsOf(row));
  for (const auto& [name, row] : teams_.users()) {
    if (name != "*") add(std::string(kUserGroup) + name, LimitsOf(row));
  }
  for (const std::string& group : team_caps_) {
    if (!caps.contains(group)) scheduler_.SetGroupLimits(group, {});
  }
  team_caps_.clear();
  for (const auto& [group, limits] : caps) {
    scheduler_.SetGroupLimits(group, limits);
    team_caps_.insert(group);
  }
  if (teams_.empty()) return;
  for (const auto& [id, record] : jobs_.live()) KnowUserCap(record);
}

// The default row's cap applies to each user separately, and is set at the user's first job.
void TeamRules::KnowUserCap(const JobRecord& record) {
  if (teams_.empty()) return;
  const UserRow* row = teams_.UserOf(record.user.name);
  if (row == nullptr || !LimitsOf(*row).any()) return;
  if (const auto [group, is_new] = team_caps_.insert(std::string(kUserGroup) + record.user.name); is_new)
    scheduler_.SetGroupLimits(*group, LimitsOf(*row));
}

// Format: "TIME TEAM=AMOUNT TEAM=AMOUNT ...". TIME is `now` in nanoseconds since 1970. Team names contain no blanks.
std::optional<std::pair<std::string, std::string>> TeamRules::TeamUsageSetting(Time now) const {
  std::string text;
  for (const auto& [team, used] : scheduler_.TeamUsage(now)) {
    if (used >= 1) text += ' ' + team + '=' + std::to_string(static_cast<std::int64_t>(used));
  }
  if (text.empty()) return std::nullopt;
  return std::pair(std::string(kTeamUsageKey), std::to_string(now.time_since_epoch().count()) + text);
}

void TeamRules::KeepTeamUsage(Time now) {
  if (now < next_usage_) return;
  next_usage_ = AddSaturating(now, kTeamUsageEvery);
  if (auto row = TeamUsageSetting(now)) effects_.KeepSetting(*std::move(row));
}

void TeamRules::LoadTeamUsage() {
  const auto words = SplitWords(team_usage_);
  const auto at = words.empty() ? std::nullopt : ParseInteger(words.front());
  if (!at) return;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].rfind('=');
    const auto used = equals == std::string_view::npos ? std::nullopt : ParseInteger(words[i].substr(equals + 1));
    if (!used) continue;
    scheduler_.SetTeamUsage(std::string(words[i].substr(0, equals)), static_cast<double>(*used), Time(Duration(*at)));
  }
}

Status TeamRules::CheckGroupName(const std::string& group) {
  for (const std::string_view reserved : {kTeamGroup, kUserGroup, kPoolGroup, kArrayGroup}) {
    if (!group.starts_with(reserved)) continue;
    return InvalidArgument("a group cannot be called '" + group + "': names that begin with '" + std::string(reserved) +
                           "' are used for limits of teams, users, pools and arrays; choose another name");
  }
  return {};
}

Status TeamRules::CheckTeam(JobSpec& spec, std::uint64_t elements, const Caller& caller, Time now) const {
  DIVVY_CHECK(CheckGroupName(spec.group));
  if (teams_.empty()) {
    if (!spec.team.empty() && spec.dialect == Dialect::kNative)
      spec.notes.push_back("--team " + spec.team + ": there are no teams here, so this is only a label");
    return {};
  }
  DIVVY_TRY(const std::string team, teams_.TeamFor({caller.user.name, caller.groups, caller.is_admin}, spec.team));
  spec.team = team;
  if (!spec.queues_anyway) DIVVY_CHECK(CheckUserGpus(caller.user.name, spec.request));
  DIVVY_CHECK(CheckQueued(spec, elements, caller));
  if (spec.request.gpus_in_all() == 0) return {};
  for (const TeamRow* row : teams_.PathOf(team))
    DIVVY_CHECK(budgets_.CheckBudget("team " + row->name, UsageLedger::TeamKey(row->name), row->caps, now));
  if (const UserRow* row = teams_.UserOf(caller.user.name))
    DIVVY_CHECK(
        budgets_.CheckBudget("user " + caller.user.name, UsageLedger::UserKey(caller.user.name), row->caps, now));
  return {};
}

Status TeamRules::CheckUserGpus(const std::string& user, const Request& request) const {
  const UserRow* row = teams_.UserOf(user);
  if (row == nullptr || !row->gpus || request.gpus_in_all() <= *row->gpus) return {};
  const std::string asks = "asks for " + Plural(request.gpus_in_all(), "GPU") + ", but user " + user;
  if (*row->gpus == 0) return LimitExceeded(asks + " may hold none; leave --gpus out to run without GPUs");
  const std::string most = std::to_string(*row->gpus);
  return LimitExceeded(asks + " never holds more than " + most + " at once; --gpus " + most + " is the maximum");
}

Status TeamRules::CheckQueued(const JobSpec& spec, std::uint64_t elements, const Caller& caller) const {
  const std::vector<const TeamRow*> path = teams_.PathOf(spec.team);
  const UserRow* user = teams_.UserOf(caller.user.name);
  const bool has_user_cap = user != nullptr && user->caps.queued;
  if (!has_user_cap && std::ranges::none_of(path, [](const TeamRow* row) { return row->caps.queued.has_value(); }))
    return {};
  const auto members = static_cast<std::int64_t>(std::max<std::uint64_t>(elements, 1));
  std::int64_t of_user = 0;
  std::map<std::string_view, std::int64_t> of_team;  // Without the subtree.
  for (const auto& [id, record] : jobs_.live()) {
    if (!SomeWait(record)) continue;
    of_team[record.team] += Members(record);
    if (record.user.uid == caller.user.uid) of_user += Members(record);
  }
  const auto check = [&](const std::string& who, const Caps& caps, std::int64_t queued) -> Status {
    if (!caps.queued || queued + members <= *caps.queued) return {};
    return LimitExceeded(who + " has " + Plural(queued, "job") + " in the queue, and may have " +
                         std::to_string(*caps.queued) + "; wait, or cancel some");
  };
  if (has_user_cap) DIVVY_CHECK(check("user " + caller.user.name, user->caps, of_user));
  for (const TeamRow* row : path) {
    std::int64_t queued = 0;
    for (const auto& [team, count] : of_team) {
      const auto above = teams_.PathOf(team);
      if (std::ranges::find(above, row) != above.end()) queued += count;
    }
    DIVVY_CHECK(check("team " + row->name, row->caps, queued));
  }
  return {};
}

std::string TeamRules::TeamBar(const JobRecord& record) const {
  if (teams_.empty()) return "";
  if (const std::string bar = teams_.BarOf(record.team); !bar.empty()) return "an administrator: " + bar;
  const auto bar = [&](const std::string& who, const std::string& key, const Caps& caps) -> std::string {
    if (caps.running && *caps.running == 0) return "an administrator: " + who + " may run no jobs";
    return record.request.gpus_in_all() == 0 ? "" : budgets_.WhySpent(key);
  };
  for (const TeamRow* row : TeamsOf(record)) {
    if (auto text = bar("team " + row->name, UsageLedger::TeamKey(row->name), row->caps); !text.empty()) return text;
  }
  const UserRow* user = teams_.UserOf(record.user.name);
  if (user == nullptr) return "";
  if (user->gpus && *user->gpus == 0 && record.request.gpus_in_all() > 0)
    return "an administrator: user " + record.user.name + " may hold no GPUs";
  return bar("user " + record.user.name, UsageLedger::UserKey(record.user.name), user->caps);
}

std::map<std::string, TeamRules::TeamLoad> TeamRules::TeamLoads(Time now) const {
  std::map<std::string, TeamLoad> loads;
  for (const auto& [id, record] : jobs_.live()) {
    std::vector<TeamLoad*> theirs{&loads[UsageLedger::UserKey(record.user.name)]};
    for (const TeamRow* row : TeamsOf(record)) theirs.push_back(&loads[UsageLedger::TeamKey(row->name)]);
    for (TeamLoad* load : theirs) {
      if (SomeWait(record)) load->queued += Members(record);
      if (!RunsItself(record)) continue;
      load->running += 1;
      load->gpus += GpusWorthOf(record);
    }
  }
  for (const auto& [name, row] : teams_.teams()) loads[UsageLedger::TeamKey(name)];
  for (const auto& [name, row] : teams_.users()) {
    if (name != "*") loads[UsageLedger::UserKey(name)];
  }
  for (auto& [key, load] : loads) {
    const std::string_view name = std::string_view(key).substr(key.find(':') + 1);
    const TeamRow* team = key.starts_with("team:") ? teams_.Find(name) : nullptr;
    const UserRow* user = key.starts_with("user:") ? teams_.UserOf(name) : nullptr;
    const BudgetPeriod period = team != nullptr   ? team->caps.period
                                : user != nullptr ? user->caps.period
                                                  : BudgetPeriod::kMonth;
    load.used = budgets_.UsedBy(key, period, now);
  }
  return loads;
}

bool TeamRules::LoadSetting(const std::string& key, const std::string& text) {
  if (key == kTeamUsageKey) team_usage_ = text;
  return teams_.LoadSetting(key, text) || budgets_.LoadSetting(key, text);
}

bool TeamRules::Follow(Time now) {
  const bool is_told = TellTeams(now);
  SetTeamCaps();
  return is_told;
}

std::vector<GroupName> TeamRules::GroupsOf(const JobRecord& record) const {
  std::vector<GroupName> groups;
  if (teams_.empty()) return groups;
  for (const TeamRow* row : TeamsOf(record)) {
    if (LimitsOf(*row).any()) groups.push_back(std::string(kTeamGroup) + row->name);
  }
  const UserRow* user = teams_.UserOf(record.user.name);
  if (user != nullptr && LimitsOf(*user).any()) groups.push_back(std::string(kUserGroup) + record.user.name);
  return groups;
}

}  // namespace divvy
