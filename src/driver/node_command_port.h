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
  /// `spec` is the specification that a LaunchCommand or an AdoptCommand needs. It is null if the store could not read
  /// it, and for all other commands.
  virtual void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) = 0;
};

}  // namespace divvy
