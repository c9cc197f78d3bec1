// The memory of a controller that leads, in a chaos run: the production controller and driver, and a model of
// its nodes (daemon/fleet/remote_node.h). It ends with the lease. Each task of the loop and each timer is a step of its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/books/node_row.h"
#include "control/controller/controller.h"
#include "driver/controller_driver.h"
#include "simulate/chaos/chaos_trace.h"
#include "simulate/controllers/agent_link.h"
#include "store/store.h"

namespace divvy::simulate {

class LeaderLife final : public LeaderEnd, private NodeCommandPort {
 public:
  struct Ports {
    std::function<bool()> may_act;
    std::function<void(std::vector<Batch>, std::function<void(Status)>)> commit;
    /// Called when the controller's process must end and start again.
    std::function<void()> give_up;
  };
  /// Models the time of one leader between its election and its end. `clock`: the wall clock of its machine. Its timers
  /// run by `true_clock`.
  LeaderLife(std::int64_t epoch, Store& store, const Clock& clock, const ChaosClock& true_clock, ChaosTrace& trace,
             std::uint64_t seed, Ports ports);

  void Load(Store::Loaded loaded, const std::vector<NodeRow>& rows);

  Controller& controller() { return controller_; }
  ControllerDriver& driver() { return driver_; }
  Time Now() const { return clock_.Now(); }
  std::int64_t epoch() const { return epoch_; }

  // --- The loop ----------------------------------------------------------------------------------------------------
  bool is_task_due() const { return !tasks_.empty(); }
  void RunTask();
  Time next_timer() const;
  void FireTimer();

  // --- Messages of agents ------------------------------------------------------------------------------------------
  void OnGreeting(const std::string& node, const Link& link) override;
  void OnBeat(const Link& link) override;
  void OnAdopted(const Link& link) override;
  void OnStarted(const Link& link, JobId job, std::uint32_t attempt) override;
  void OnExited(const Link& link, JobId job, std::uint32_t attempt, const Exit& exit) override;
  void OnVanished(const Link& link, JobId job, std::uint32_t attempt, RunVanished how) override;
  void OnFound(const Link& link, const RunDescription& run) override;
  /// Handles the end of an agent's connection: the agent has closed it, or the network was cut.
  void OnLinkLost(const Link& link);

 private:
  struct Node {
    Link link;                             // Null: not connected.
    std::map<JobId, std::uint32_t> known;  // See RemoteNode::Knows.
  };
  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override;
  void Send(Node& node, const NodeCommand& command, std::shared_ptr<const JobSpec> spec);
  /// Returns the node whose present connection this is, and its name in `*name`; null if it is an old connection.
  Node* NodeOfLink(const Link& link, std::string* name = nullptr);
  /// Returns the name of the node on this connection if it may report about the run. Otherwise returns null, and the
  /// node must forget the run.
  const std::string* Admit(const Link& link, JobId job, std::uint32_t attempt);
  ControllerDriver::Ports PortsOfDriver();

  const std::int64_t epoch_;
  Store& store_;
  const Clock& clock_;
  const ChaosClock& true_clock_;
  ChaosTrace& trace_;
  Ports ports_;
  Controller controller_;
  ControllerDriver driver_;
  std::map<std::string, Node> nodes_;
  std::vector<std::function<void()>> tasks_;
  std::vector<std::pair<Time, std::function<void()>>> timers_;  // By true time.
};

}  // namespace divvy::simulate
