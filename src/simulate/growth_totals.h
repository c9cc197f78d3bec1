// The cost and the use of providers' nodes in a replay.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"
#include "model/provider.h"

namespace divvy::simulate {

struct GrowthTotals {
  Money cost;
  std::int64_t nodes_requested = 0;
  std::int64_t most_nodes = 0;    // At one time.
  double node_hours = 0;          // From request to return; the next two are parts of it.
  double startup_node_hours = 0;  // Before the node took jobs.
  double idle_node_hours = 0;     // While it took jobs but had none.
  double gpu_hours = 0;           // GPUs of the nodes x time.
  double decide_cpu_seconds = 0;  // CPU time of one core in DecideGrowth.
  double slowest_decision_ms = 0;
  std::int64_t growth_decisions = 0;
  std::vector<std::pair<Time, std::int64_t>> nodes;  // Nodes over time, at most one value an hour.
};

}  // namespace divvy::simulate
