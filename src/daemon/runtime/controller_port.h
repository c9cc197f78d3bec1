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
  /// The tenants of this node's shared GPUs and their present state.
  virtual void OnShares(const wire::KeeperState&) {}
  /// This run must be queued again, because no other way was left to give other tenants their requests. The run has
  /// agreed to that.
  virtual void OnRepay(JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}
};

}  // namespace divvy
