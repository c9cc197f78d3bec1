// Connects the nodes of agents to a daemon: the registry of nodes, the endpoint for their connections, and the fleet,
// on top of the daemon's own commits and tokens.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/books/node_registry.h"
#include "daemon/auth/remote_callers.h"
#include "daemon/fleet/agents.h"
#include "daemon/runtime/log.h"
#include "driver/controller_driver.h"

namespace divvy {

class AgentListener {
 public:
  /// The key of the store's row with the newest epoch: a number that grows with each start of a controller on this
  /// store, or with each new lease.
  static constexpr std::string_view kEpochKey = "controller.epoch";

  /// Loads a row of the store; call before anything else. Returns true if the row belongs to this class.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Sets the name and GPUs of this machine, which no agent may claim.
  void SetOwn(std::string name, const std::vector<GpuFacts>& gpus) { registry_.SetOwn(std::move(name), gpus); }

  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    const Log* log = nullptr;
    // See Agents::Ports.
    std::function<std::string(JobId, std::uint32_t attempt)> gang_key;
    std::function<void(RemoteNode& node, std::uint64_t number, std::string_view purpose)> on_channel;
    std::function<void(RemoteNode& node, JobId job)> before_foreground;
    std::function<void(const std::vector<samples::Snapshot>& seen)> on_samples;
    std::function<std::string(const User& user)> right_of;
    std::function<bool()> may_act;
    std::function<std::vector<std::string>()> controllers;
    std::function<Result<std::map<std::string, std::string>>(std::string_view token, const std::string& name)> may_join;
    std::uint64_t lease = 0;  // The epoch of this controller's lease. 0: it has none.
  };
  /// Starts to accept agents. `fleet` decides for their nodes; if it is null, no jobs are placed on them. `driver`,
  /// `callers` and `fleet` must outlive this object.
  void Open(ControllerDriver& driver, RemoteCallers& callers, Agents::Terms terms, FleetPort* fleet, Ports ports);

  /// Handles requests for wire::kAgentPath; refuses them before Open.
  void OnRequest(const Peer& peer, HttpRequest&& request, Reply reply);

  // Changes by administrators; each returns a message about what was done. `driver` stores the change.

  /// Fails if no agent's node has this name; the message for the controller's own node says so.
  Status Knows(const std::string& name) const;
  Result<std::string> Cordon(ControllerDriver& driver, const std::string& name, const std::string& reason);
  Result<std::string> Drain(ControllerDriver& driver, const std::string& name, Time deadline,
                            const std::string& reason);
  Result<std::string> Resume(ControllerDriver& driver, const std::string& name);
  /// Refused while jobs run on the node, unless `is_gone`. `is_gone`: the node is disconnected and will not come back;
  /// its jobs count as lost.
  Result<std::string> Remove(ControllerDriver& driver, const std::string& name, bool is_gone);
  Result<std::string> Label(ControllerDriver& driver, const std::string& name,
                            const std::map<std::string, std::string>& labels);

  NodeRegistry& registry() { return registry_; }
  const NodeRegistry& registry() const { return registry_; }
  /// Returns "up", "away" (disconnected a moment ago), "lost" (disconnected for longer than lost_after), "awaited" (not
  /// connected since the controller started), "cordoned" or "draining".
  std::string StateOf(const NodeRow& row) const;
  /// Null before Open.
  Agents* agents() { return agents_.get(); }
  std::uint64_t epoch() const { return epoch_; }
  /// Call before Open. Agents follow no controller of an earlier epoch, even if it starts with an older store.
  void ReserveEpochs(std::uint64_t epoch) { epoch_ = std::max(epoch_, epoch); }

 private:
  Status CheckRemovable(const std::string& name, bool is_gone);
  NodeRegistry registry_;
  std::uint64_t epoch_ = 0;
  Status Keep(ControllerDriver& driver, const std::string& name, Result<NodeRegistry::Setting> setting);

  std::unique_ptr<FleetPort> nobody_;
  FleetPort* fleet_ = nullptr;
  std::unique_ptr<Agents> agents_;
};

}  // namespace divvy
