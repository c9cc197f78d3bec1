// Where a controller's orders go once they are durable: its own machine's node (daemon/node/node.h), or one behind an
// agent (daemon/fleet/remote_node.h).
#pragma once

#include <memory>

#include "control/books/effects.h"
#include "model/job.h"

namespace divvy {

class OrderPort {
 public:
  virtual ~OrderPort() = default;
  /// `spec`: what to run, of a LaunchOrder; null where the store could not give it, and for all other orders.
  virtual void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) = 0;
};

}  // namespace divvy
