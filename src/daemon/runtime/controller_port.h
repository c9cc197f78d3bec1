// Events that a node reports to its controller, and queries that it sends there. In the daemon this is the controller
// of the same process (daemon/fleet/local_controller.h). In an agent it is a controller on another node
// (daemon/agent/agent_session.h); the agent knows the controller's view from its Welcome message and the commands sent
// since.
#pragma once

#include <cstdint>
#include <string>

#include "driver/node_report_port.h"
#include "wire/messages/share_messages.h"

namespace divvy {

class ControllerPort : public NodeReportPort {
 public:
  /// Reports the tenants of this node's shared GPUs and their present state.
  virtual void OnShares(const wire::KeeperState&) {}
  /// Reports that this run, a tenant of a shared GPU, must be queued again, because the guaranteed fractions of other
  /// tenants of that GPU cannot be provided in another way. The run's job allows that.
  virtual void OnRepay(JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}
};

}  // namespace divvy
