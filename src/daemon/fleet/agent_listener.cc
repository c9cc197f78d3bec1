#include "daemon/fleet/agent_listener.h"

#include <utility>

#include "base/text.h"
#include "daemon/http/http_reply.h"

namespace divvy {
namespace {

/// A fleet for nodes that may join and be listed, but run nothing.
class NobodysFleet final : public FleetPort {
 public:
  std::vector<wire::AgentRun> RunsOn(const std::string&) override { return {}; }
  const JobRecord* Find(JobId) override { return nullptr; }
  void OnJoined(const std::string&, const MachineFacts&, NodeCommandPort&) override {}
  void OnAccounted(const std::string&) override {}
  void OnRow(const NodeRow&) override {}
  void OnRemoved(const std::string&) override {}
  void OnPrepared(const std::string&, JobId, std::uint32_t, std::uint16_t) override {}
  void OnStarted(const std::string&, JobId, std::uint32_t, Time) override {}
  void OnExited(const std::string&, JobId, std::uint32_t, const Exit&, Time) override {}
  void OnVanished(const std::string&, JobId, std::uint32_t, RunVanished) override {}
  void OnGpusObserved(const std::string&, const std::vector<GpuObservation>&) override {}
  void OnTrouble(const std::string&, const std::string&) override {}
  void OnLost(const std::string&) override {}
  void OnAway(const std::string&) override {}
  void OnFenced(const std::string&) override {}
  void OnGone(const std::string&) override {}
  void OnBack(const std::string&) override {}
};

}  // namespace

bool AgentListener::LoadSetting(std::string_view key, std::string_view text) {
  if (key == kEpochKey) {
    const auto epoch = ParseInteger(text);
    if (epoch && *epoch > 0) epoch_ = static_cast<std::uint64_t>(*epoch);
    return true;
  }
  return registry_.LoadSetting(key, text);
}

void AgentListener::Open(ControllerDriver& driver, RemoteCallers& callers, Agents::Terms terms, FleetPort* fleet,
                         Ports ports) {
  epoch_ = std::max(epoch_ + 1, ports.lease);
  driver.controller().KeepSetting(kEpochKey, std::to_string(epoch_));
  driver.Touch();
  if (fleet == nullptr) {
    nobody_ = std::make_unique<NobodysFleet>();
    fleet = nobody_.get();
  }
  fleet_ = fleet;
  Agents::Ports out;
  out.now = [&driver] { return driver.Now(); };
  out.keep = [&driver](NodeRegistry::Setting setting) {
    driver.controller().KeepSetting(setting.first, std::move(setting.second));
    driver.Touch();
  };
  out.after_commit = [&driver](std::function<void()> task) {
    driver.AfterCommit([task = std::move(task)](const Status&) { task(); });
  };
  out.after = std::move(ports.after);
  out.log = [log = ports.log](const std::string& line) {
    if (log != nullptr) log->Write(LogLevel::kInfo, line);
  };
  out.gang_key = std::move(ports.gang_key);
  out.on_channel = std::move(ports.on_channel);
  out.before_foreground = std::move(ports.before_foreground);
  out.on_samples = std::move(ports.on_samples);
  out.right_of = std::move(ports.right_of);
  out.may_act = std::move(ports.may_act);
  out.controllers = std::move(ports.controllers);
  out.may_join = std::move(ports.may_join);
  out.admit = [&driver, &callers](std::string_view authorization) {
    return callers.AdmitNode(authorization, driver.Latest());
  };
  out.spend = [&driver, &callers](std::string_view token) { return callers.registry().Spend(token, driver.Latest()); };
  agents_ = std::make_unique<Agents>(registry_, epoch_, terms, *fleet, std::move(out));
  agents_->Start();
}

void AgentListener::OnRequest(const Peer& peer, HttpRequest&& request, Reply reply) {
  if (agents_) return agents_->OnRequest(peer, std::move(request), std::move(reply));
  reply.Answer(ErrorResponse(503, "failed_precondition", "this daemon lets no agents in yet"));
}

std::string AgentListener::StateOf(const NodeRow& row) const {
  const auto presence = agents_ ? agents_->PresenceOf(row.name) : Agents::Presence::kAwaited;
  if (presence == Agents::Presence::kLost) return "lost";
  if (row.work != NodeWork::kTakes) return std::string(Name(row.work));
  if (presence == Agents::Presence::kAwaited) return "awaited";
  return presence == Agents::Presence::kAway ? "away" : "up";
}

Status AgentListener::Knows(const std::string& name) const {
  if (registry_.Find(name) != nullptr) return {};
  if (name == registry_.own_name())
    return FailedPrecondition(name + " is the controller's own node: it has no agent and no labels; " +
                              "divvy gpus restrict keeps work off its GPUs");
  return NotFound("there is no node '" + name.substr(0, 64) + "'; divvy nodes lists all nodes");
}

Status AgentListener::Keep(ControllerDriver& driver, const std::string& name, Result<NodeRegistry::Setting> setting) {
  if (!setting) return setting.error();
  driver.controller().KeepSetting(setting->first, std::move(setting->second));
  driver.Touch();
  const NodeRow* row = registry_.Find(name);
  if (fleet_ != nullptr && row != nullptr) fleet_->OnRow(*row);
  return {};
}

Result<std::string> AgentListener::Cordon(ControllerDriver& driver, const std::string& name,
                                          const std::string& reason) {
  DIVVY_CHECK(Keep(driver, name, registry_.Cordon(name, reason, driver.Now())));
  return name + " takes no new work; running jobs continue";
}

Result<std::string> AgentListener::Drain(ControllerDriver& driver, const std::string& name, Time deadline,
                                         const std::string& reason) {
  DIVVY_CHECK(Keep(driver, name, registry_.Drain(name, deadline, reason, driver.Now())));
  return name + " takes no new work; " +
         (deadline == kNever ? "running jobs may finish" : "running jobs are stopped at the deadline");
}

Result<std::string> AgentListener::Resume(ControllerDriver& driver, const std::string& name) {
  DIVVY_CHECK(Keep(driver, name, registry_.Resume(name)));
  return name + " takes work again";
}

Result<std::string> AgentListener::Label(ControllerDriver& driver, const std::string& name,
                                         const std::map<std::string, std::string>& labels) {
  const NodeRow* row = registry_.Find(name);
  const auto before = row == nullptr ? std::map<std::string, std::string>() : row->AllLabels();
  DIVVY_CHECK(Keep(driver, name, registry_.Label(name, labels)));
  const auto after = registry_.Find(name)->AllLabels();
  std::string text = after == before ? "the labels of " + name + " are unchanged" : "labelled " + name;
  for (const auto& [key, value] : labels) {
    if (const auto stays = after.find(key); value.empty() && stays != after.end())
      text += "; " + key + "=" + stays->second + " is set by its agent, and stays (divvy node label " + name + " " +
              key + "=VALUE overrides it)";
  }
  return text;
}

Status AgentListener::CheckRemovable(const std::string& name, bool is_gone) {
  if (fleet_ == nullptr) return {};
  const RemoteNode* node = agents_ ? agents_->Find(name) : nullptr;
  const bool is_there = node != nullptr && node->is_connected();
  if (is_gone && is_there)
    return FailedPrecondition("--gone is for a node that does not come back, but the agent of " + name +
                              " is connected; divvy node drain " + name + " empties it, then divvy node remove " +
                              name + " (without --gone) removes it");
  const auto runs = fleet_->RunsOn(name);
  if (runs.empty() || is_gone) return {};
  const NodeRow* row = registry_.Find(name);
  const bool is_draining = row != nullptr && row->work == NodeWork::kDraining;
  const std::string first = Plural(static_cast<std::int64_t>(runs.size()), "job") + " still " +
                            (runs.size() == 1 ? "runs" : "run") + " on " + name;
  if (!is_there)
    return FailedPrecondition(
        first + " according to the last report: its agent is away; if the node will not return, divvy node remove " +
        name + " --gone counts their runs as lost and queues the jobs again where possible");
  return FailedPrecondition(first + (is_draining ? ", which is draining; wait for the end, or divvy node drain " +
                                                       name + " --deadline TIME stops what still runs by then"
                                                 : "; divvy node drain " + name + " first"));
}

Result<std::string> AgentListener::Remove(ControllerDriver& driver, const std::string& name, bool is_gone) {
  DIVVY_CHECK(Knows(name));
  DIVVY_CHECK(CheckRemovable(name, is_gone));
  if (is_gone && fleet_ != nullptr) fleet_->OnGone(name);
  DIVVY_CHECK(Keep(driver, name, registry_.Remove(name)));
  if (agents_) agents_->Forget(name);
  if (fleet_ != nullptr) fleet_->OnRemoved(name);
  return "removed " + name + "; it needs a new token to join again";
}

}  // namespace divvy
