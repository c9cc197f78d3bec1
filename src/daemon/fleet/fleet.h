// Decides for the nodes of agents: passes their reports to the controller, and the controller's commands to the node
// that each one is for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/fleet/fleet_port.h"
#include "daemon/shares/sharing_snapshot.h"
#include "driver/controller_driver.h"
#include "driver/node_command_port.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class Fleet final : public FleetPort, public NodeCommandPort {
 public:
  /// `own` is the controller's own node. `key_seed` is secret and differs between processes; the keys of gangs are
  /// derived from it.
  Fleet(NodeCommandPort& own, std::string key_seed) : own_(own), key_seed_(std::move(key_seed)) {}

  /// Must be called before anything else except Execute.
  void Join(ControllerDriver& driver);
  struct Ports {
    /// Returns null if there is no such node.
    std::function<NodeCommandPort*(const std::string& node)> find;
    /// The address of an agent, such as "10.0.0.7:4711"; empty: unknown.
    std::function<std::string(const std::string& node)> address;
    /// Tells the controller's own node the key of a gang's node allocation that is launched there next.
    std::function<void(JobId, std::uint32_t attempt, std::string key)> set_own_key;
    std::string own_name;  // The name of the controller's own node.
    /// Optional. An agent's connection is gone (false), or its session continues on another connection (true).
    std::function<void(const std::string& node, bool is_there)> on_presence;
    /// Optional. Called before a job is launched on the controller's own node.
    std::function<void(JobId)> before_own;
    /// Optional. Stores the tenants of shared GPUs.
    std::shared_ptr<SharingSnapshot> shares;
    /// Optional. Tells a node (empty: the controller's own) which of its GPUs tenants must not use now. Returns false
    /// if the node is disconnected; it is told when it is back.
    std::function<bool(const std::string& node, const std::vector<wire::WithheldGpu>&)> withhold;
  };
  void SetPorts(Ports ports) { ports_ = std::move(ports); }

  /// Returns the secret key that the nodes of a gang share: 64 hexadecimal digits, the same on all nodes for one
  /// attempt of the job.
  std::string GangKey(JobId job, std::uint32_t attempt) const;

  // NodeCommandPort: passes each command to the node that it names.
  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override;

  // FleetPort
  std::vector<wire::AgentRun> RunsOn(const std::string& node) override;
  const JobRecord* Find(JobId job) override { return driver_->controller().Find(job); }
  void OnJoined(const std::string&, const MachineFacts&, NodeCommandPort&) override {}
  void OnAccounted(const std::string& node) override;
  void OnPrepared(const std::string& node, JobId job, std::uint32_t attempt, std::uint16_t port) override;
  void OnDelayed(const std::string& node, JobId job, std::uint32_t attempt, const std::string& why) override;
  void OnStarted(const std::string& node, JobId job, std::uint32_t attempt, Time at) override;
  void OnExited(const std::string& node, JobId job, std::uint32_t attempt, const Exit& exit, Time at) override;
  void OnVanished(const std::string& node, JobId job, std::uint32_t attempt, RunVanished how) override;
  void OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& seen) override;
  void OnTrouble(const std::string& node, const std::string& what) override;
  void OnShares(const std::string& node, const wire::KeeperState& state) override;
  void OnPresence(const std::string& node, const PresenceReport& report) override;
  void OnRepay(const std::string& node, JobId job, std::uint32_t attempt, const std::string& why) override;
  bool OnFound(RunDescription run) override;
  void OnRow(const NodeRow& row) override;
  void OnRemoved(const std::string& node) override;
  void OnLost(const std::string& node) override;
  void OnAway(const std::string& node) override;
  void OnFenced(const std::string& node) override;
  void OnGone(const std::string& node) override;
  void OnBack(const std::string& node) override;

 private:
  std::vector<wire::WithheldGpu> WithheldOn(NodeIndex node) const;
  void TellWithheld();
  void LaunchOwn(LaunchCommand launch, std::shared_ptr<const JobSpec> spec);
  std::vector<AllocationAddress> WithHosts(const JobRecord& record, std::vector<AllocationAddress> addresses) const;

  NodeCommandPort& own_;
  std::string key_seed_;
  ControllerDriver* driver_ = nullptr;
  std::map<NodeIndex, std::vector<wire::WithheldGpu>> told_withheld_;  // No entry: nothing is withheld.
  Ports ports_;
};

}  // namespace divvy
