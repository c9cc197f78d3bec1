// The routes of teams: their members, their usage, and changes by administrators.
#include <algorithm>
#include <memory>

#include "base/text.h"
#include "daemon/api/routes_call.h"
#include "daemon/auth/accounts.h"
#include "model/gpus/gpu_portion.h"
#include "wire/messages/messages_teams.h"

namespace divvy {
namespace {

constexpr Duration kKeepGroups = std::chrono::seconds(30);

double Amount(std::int64_t milli) { return static_cast<double>(milli) / 1000; }
std::optional<double> Amount(const std::optional<std::int64_t>& milli) {
  return milli ? std::optional(Amount(*milli)) : std::nullopt;
}

void FillCaps(const Caps& caps, wire::TeamView& view) {
  view.most_running = caps.running;
  view.most_queued = caps.queued;
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
  view.barred = controller.teams().BarOf(row.name);
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

std::vector<std::string> Routes::GroupsOf(const User& user) {
  const std::vector<std::string> named = core_.controller().teams().GroupsNamed();
  if (named.empty() || !ports_.is_in_group) return {};
  const Time now = core_.Now();
  Groups& known = groups_[user.uid];
  if (known.at == kNoTime || now - known.at >= kKeepGroups || known.asked != named) {
    known = {named, {}, now};
    for (const std::string& group : named) {
      if (ports_.is_in_group(user, group)) known.of.push_back(group);
    }
  }
  return known.of;
}

void Routes::Teams(Call& call) {
  const Controller& controller = core_.controller();
  const auto loads = controller.TeamLoads(core_.Now());
  wire::TeamsView view;
  view.are_quotas_on = controller.teams().are_quotas_on();
  for (const TeamRow* row : controller.teams().InOrder()) {
    view.teams.push_back(ViewOf(*row, controller));
    FillLoad(loads.at(UsageLedger::TeamKey(row->name)), view.teams.back());
  }
  for (const auto& [key, load] : loads) {
    if (!key.starts_with("user:")) continue;
    wire::TeamView user;
    user.name = key.substr(5);
    if (const UserRow* row = controller.teams().UserOf(user.name)) {
      user.team = row->team;
      user.is_from_file = row->is_from_file;
      user.most_gpus = row->gpus;
      FillCaps(row->caps, user);
    }
    FillLoad(load, user);
    view.users.push_back(std::move(user));
  }
  if (const auto everybody = controller.teams().users().find("*"); everybody != controller.teams().users().end()) {
    wire::TeamView user;
    user.name = "*";
    user.is_from_file = everybody->second.is_from_file;
    user.most_gpus = everybody->second.gpus;
    FillCaps(everybody->second.caps, user);
    view.users.insert(view.users.begin(), std::move(user));
  }
  for (const auto& [member, used] : controller.MemberUsage(core_.Now()))
    view.members.push_back({member.first, member.second, Amount(used.gpu_hours_milli()), Amount(used.cost_milli())});
  call.Answer(view);
}

void Routes::AnswerMessage(Call& call, const Result<std::string>& done) {
  if (!done) return call.Refuse(done.error());
  core_.AfterCommit([call = std::make_shared<Call>(std::move(call)), message = *done](const divvy::Status&) {
    call->Answer(wire::MessageAnswer{message});
  });
}

void Routes::SetTeam(Call& call) {
  const auto change = wire::Decode<TeamChange>(call.request.body);
  if (!change) return call.Refuse(change.error());
  Result<std::string> done = core_.controller().SetTeam(*change, call.caller, core_.Now());
  if (done) *done += UnknownMembersNote(*change);
  AnswerMessage(call, done);
}

void Routes::RemoveTeam(Call& call) {
  const auto team = wire::Decode<wire::TeamName>(call.request.body);
  if (!team) return call.Refuse(team.error());
  AnswerMessage(call, core_.controller().RemoveTeam(team->name, call.caller, core_.Now()));
}

void Routes::SetTeamUser(Call& call) {
  const auto change = wire::Decode<UserChange>(call.request.body);
  if (!change) return call.Refuse(change.error());
  AnswerMessage(call, core_.controller().SetTeamUser(*change, call.caller, core_.Now()));
}

void Routes::SetQuotas(Call& call) {
  const auto request = wire::Decode<wire::QuotasRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  AnswerMessage(call, core_.controller().SetQuotas(request->are_on, call.caller, core_.Now()));
}

}  // namespace divvy
