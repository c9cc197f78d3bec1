#include "daemon/api/cluster/team_routes.h"

#include <algorithm>

#include "base/text.h"
#include "daemon/auth/accounts.h"
#include "daemon/providers/provider_host.h"
#include "model/gpus/gpu_portion.h"
#include "wire/messages/messages_teams.h"

namespace divvy {
namespace {

double Amount(std::int64_t milli) { return static_cast<double>(milli) / 1000; }
std::optional<double> Amount(const std::optional<std::int64_t>& milli) {
  return milli ? std::optional(Amount(*milli)) : std::nullopt;
}

void FillCaps(const Caps& caps, wire::TeamView& view) {
  view.running_limit = caps.running;
  view.queued_limit = caps.queued;
  view.budget_gpu_hours = Amount(caps.gpu_hours_milli);
  view.budget_cost = Amount(caps.cost_milli);
  view.period = Name(caps.period);
}

void FillLoad(const Controller::TeamLoad& load, wire::TeamView& view) {
  view.running = load.running;
  view.queued = load.queued;
  view.gpus = load.gpus;
  view.used_gpu_hours = Amount(load.used.gpu_hours_milli());
  view.used_cost = Amount(load.used.cost_milli());
}

wire::TeamView ViewOf(const TeamRow& row, const Controller& controller) {
  wire::TeamView view;
  view.name = row.name;
  view.parent = row.parent;
  view.depth = static_cast<std::int64_t>(controller.teams().PathOf(row.name).size()) - 1;
  view.quota = Amount(row.quota_milli);
  view.limit = Amount(row.limit_milli);
  view.weight = row.weight;
  view.priority = row.priority;
  view.users = row.users;
  view.groups = row.groups;
  view.leads = row.leads;
  view.max_per_hour = Amount(row.nodes_per_hour_milli);
  view.max_per_month = Amount(row.nodes_per_month_milli);
  view.blocker = controller.teams().BarOf(row.name);
  view.is_from_file = row.is_from_file;
  FillCaps(row.caps, view);
  const Scheduler& server = controller.scheduler();
  if (const core::TeamIndex index = server.TeamOf(row.name); index != core::kRootTeam)
    view.share = static_cast<double>(server.teams().FairShare(index)) / GpuShare::kWhole;
  return view;
}

/// Returns "; note: this machine has no user ada" for new members or leads without an account here, else "".
std::string UnknownMembersNote(const TeamChange& change) {
  std::vector<std::string> unknown;
  for (const std::vector<std::string>* names : {&change.add_users, &change.add_leads}) {
    for (const std::string& name : *names) {
      const bool is_known = name == "*" || HasAccount(name) || std::ranges::find(unknown, name) != unknown.end();
      if (!is_known) unknown.push_back(name);
    }
  }
  if (unknown.empty()) return "";
  return std::string("; note: this machine has no user") + (unknown.size() > 1 ? "s " : " ") + Join(unknown, ", ");
}

}  // namespace

TeamRoutes::TeamRoutes(ApiContext& api, RouteTable& table) : driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/teams", &TeamRoutes::Teams},
                   {"POST", "/v1/teams", &TeamRoutes::SetTeam},
                   {"POST", "/v1/teams/remove", &TeamRoutes::RemoveTeam},
                   {"POST", "/v1/teams/users", &TeamRoutes::SetTeamUser},
                   {"POST", "/v1/teams/quotas", &TeamRoutes::SetQuotas}});
}

void TeamRoutes::Teams(ApiCall& call) {
  const Controller& controller = driver_.controller();
  const auto loads = controller.TeamLoads(driver_.Now());
  wire::TeamsView view;
  view.are_quotas_on = controller.teams().are_quotas_on();
  const auto spending =
      ports_.providers ? ports_.providers->TeamSpending() : std::map<std::string, providers::Provisioner::Spending>();
  for (const TeamRow* row : controller.teams().InOrder()) {
    view.teams.push_back(ViewOf(*row, controller));
    if (const auto its = spending.find(row->name); its != spending.end()) {
      view.teams.back().nodes_per_hour = its->second.hourly.units();
      view.teams.back().nodes_this_month = its->second.this_month.units();
    }
    FillLoad(loads.at(UsageLedger::TeamKey(row->name)), view.teams.back());
  }
  for (const auto& [key, load] : loads) {
    if (!key.starts_with("user:")) continue;
    wire::TeamView user;
    user.name = key.substr(5);
    if (const UserRow* row = controller.teams().UserOf(user.name)) {
      user.team = row->team;
      user.is_from_file = row->is_from_file;
      user.gpu_limit = row->gpus;
      FillCaps(row->caps, user);
    }
    FillLoad(load, user);
    view.users.push_back(std::move(user));
  }
  if (const auto everybody = controller.teams().users().find("*"); everybody != controller.teams().users().end()) {
    wire::TeamView user;
    user.name = "*";
    user.is_from_file = everybody->second.is_from_file;
    user.gpu_limit = everybody->second.gpus;
    FillCaps(everybody->second.caps, user);
    view.users.insert(view.users.begin(), std::move(user));
  }
  for (const auto& [member, used] : controller.MemberUsage(driver_.Now()))
    view.members.push_back({member.first, member.second, Amount(used.gpu_hours_milli()), Amount(used.cost_milli())});
  call.Answer(view);
}

void TeamRoutes::SetTeam(ApiCall& call) {
  const auto change = wire::Decode<TeamChange>(call.request.body);
  if (!change) return call.Refuse(change.error());
  Result<std::string> done = driver_.controller().SetTeam(*change, call.caller, driver_.Now());
  if (done) *done += UnknownMembersNote(*change);
  AnswerMessage(driver_, call, done);
}

void TeamRoutes::RemoveTeam(ApiCall& call) {
  const auto team = wire::Decode<wire::TeamName>(call.request.body);
  if (!team) return call.Refuse(team.error());
  AnswerMessage(driver_, call, driver_.controller().RemoveTeam(team->name, call.caller, driver_.Now()));
}

void TeamRoutes::SetTeamUser(ApiCall& call) {
  const auto change = wire::Decode<UserChange>(call.request.body);
  if (!change) return call.Refuse(change.error());
  AnswerMessage(driver_, call, driver_.controller().SetTeamUser(*change, call.caller, driver_.Now()));
}

void TeamRoutes::SetQuotas(ApiCall& call) {
  const auto request = wire::Decode<wire::QuotasRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  AnswerMessage(driver_, call, driver_.controller().SetQuotas(request->are_on, call.caller, driver_.Now()));
}

}  // namespace divvy
