// Receives a controller's node commands once they are durable: the controller's own node (daemon/node/node.h), or a
// node behind an agent (daemon/fleet/remote_node.h).
#pragma once

#include <memory>

#include "control/books/effects.h"
#include "model/job.h"

namespace divvy {

class NodeCommandPort {
 public:
  virtual ~NodeCommandPort() = default;
  /// Carries out a command of the controller on its node. `spec`: the job's specification, for a LaunchCommand or an
  /// AdoptCommand. It is null if it could not be read from the store, and for all other commands.
  virtual void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) = 0;
};

}  // namespace divvy
