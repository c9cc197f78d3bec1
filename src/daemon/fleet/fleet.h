// Who decides for the machines of agents: gives what they report to the controller, and the controller's orders to the
// machine that each is for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/driver/core.h"
#include "daemon/fleet/fleet_port.h"
#include "daemon/runtime/order_port.h"
#include "daemon/shares/share_board.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

class Fleet final : public FleetPort, public OrderPort {
 public:
  /// `own`: the controller's own machine. `key_seed`: nobody can guess it; the keys of gangs come from it, so those of
  /// another process differ.
  Fleet(OrderPort& own, std::string key_seed) : own_(own), key_seed_(std::move(key_seed)) {}

  /// Before anything else but orders.
  void Join(Core& core);
  struct Ports {
    /// Null: there is no such machine.
    std::function<OrderPort*(const std::string& node)> find;
    /// Of an agent, as "10.0.0.7:4711"; empty: not known.
    std::function<std::string(const std::string& node)> address;
    /// Tells the controller's own machine the key of a gang's part that is about to be launched there.
    std::function<void(JobId, std::uint32_t attempt, std::string key)> set_own_key;
    std::string own_name;  // Of the controller's own machine.
    /// An agent's connection is gone (false), or its session goes on by another. May be null.
    std::function<void(const std::string& node, bool is_there)> on_presence;
    /// A job is launched on the controller's own machine next. May be null.
    std::function<void(JobId)> before_own;
    /// Where it is kept who shares GPUs. Null: nowhere.
    std::shared_ptr<ShareBoard> shares;
    /// Tells a machine (empty: the controller's own) which of its GPUs are not for shares of them now. False: it is
    /// away, and is told when it is back. May be null.
    std::function<bool(const std::string& node, const std::vector<wire::WithheldGpu>&)> withhold;
  };
  void SetPorts(Ports ports) { ports_ = std::move(ports); }

  /// 64 hexadecimal digits, the same for all parts of one attempt.
  std::string GangKey(JobId job, std::uint32_t attempt) const;

  // OrderPort: to the machine that the order names.
  void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) override;

  // FleetPort
  std::vector<wire::AgentRun> RunsOn(const std::string& node) override;
  const JobRecord* Find(JobId job) override { return core_->controller().Find(job); }
  void OnJoined(const std::string&, const MachineFacts&, OrderPort&) override {}
  void OnAccounted(const std::string& node) override;
  void OnPrepared(const std::string& node, JobId job, std::uint32_t attempt, std::uint16_t port) override;
  void OnDelayed(const std::string& node, JobId job, std::uint32_t attempt, const std::string& why) override;
  void OnStarted(const std::string& node, JobId job, std::uint32_t attempt, Time at) override;
  void OnExited(const std::string& node, JobId job, std::uint32_t attempt, const Exit& exit, Time at) override;
  void OnVanished(const std::string& node, JobId job, std::uint32_t attempt, RunVanished how) override;
  void OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& seen) override;
  void OnTrouble(const std::string& node, const std::string& what) override;
  void OnShares(const std::string& node, const wire::KeeperState& state) override;
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
  void LaunchOwn(LaunchOrder launch, std::shared_ptr<const JobSpec> spec);
  std::vector<SeatAddress> WithHosts(const JobRecord& record, std::vector<SeatAddress> addresses) const;

  OrderPort& own_;
  std::string key_seed_;
  Core* core_ = nullptr;
  std::map<std::string, std::vector<wire::WithheldGpu>> told_withheld_;  // By machine; none: nothing is withheld.
  Ports ports_;
};

}  // namespace divvy
