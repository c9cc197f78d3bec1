// Receives a controller's node commands once they are durable: the controller's own node (daemon/node/node.h), or a
// node behind an agent (daemon/fleet/remote_node.h).
#pragma once

#include <memory>

#include "control/books/effects.h"
#include "model/job.h"

namespace divvy {

class OrderPort {
 public:
  virtual ~OrderPort() = default;
  /// `spec` is the specification that a LaunchOrder or an AdoptOrder needs. It is null if the store could not read it,
  /// and for all other commands.
  virtual void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) = 0;
};

}  // namespace divvy
