// The resources of a job on one of its nodes. The node allocations of a gang start together or not at all: each node
// prepares its part and waits, and all start when the last one is ready.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy {

/// For heterogeneous jobs: the resources of one component on a node.
struct ComponentAllocation {
  int component = 0;
  GpuSet gpus;
  int tasks = 1;  // Tasks of this component.

  friend bool operator==(const ComponentAllocation&, const ComponentAllocation&) = default;
};

/// A gang lost its part on a node, and its other parts continue (JobRecord::stale_grace).
struct PartLoss {
  Time at = kNoTime;
  bool requeues = false;  // If the gang ends because of the loss, it is requeued rather than over.

  friend bool operator==(const PartLoss&, const PartLoss&) = default;
};

struct NodeAllocation {
  std::string node;  // The node's name. Empty: the controller's own node.
  GpuSet gpus;
  int tasks = 1;             // Number of the job's tasks that run here. Ranks continue from one allocation to the next.
  std::uint16_t port = 0;    // The port where its step process listens for those of the other nodes. 0: not prepared.
  std::optional<Exit> exit;  // How its part ended. Not set: it has not ended.
  /// For heterogeneous jobs: the components on this node, ascending. `gpus` and `tasks` are their totals. Ranks go
  /// through the first component on all nodes, then through the next one.
  std::vector<ComponentAllocation> parts;
  std::optional<PartLoss> loss = {};  // Set if its part was lost and the gang continued; `exit` is set too.

  friend bool operator==(const NodeAllocation&, const NodeAllocation&) = default;
};

/// The address where a prepared part waits for the step processes of the other nodes.
struct AllocationAddress {
  std::string host;        // A name or address that the other nodes can reach.
  std::uint16_t port = 0;  // TCP; 0: it does not listen.

  friend bool operator==(const AllocationAddress&, const AllocationAddress&) = default;
};

}  // namespace divvy
