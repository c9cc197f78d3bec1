// A cluster whose nodes are requested from providers and returned, behind the replay's interface. The production
// scheduler places the jobs, and engine/growth decides about nodes; two other policies exist for comparison.
//
// A node costs money from its request until its return, in whole billing periods of its provider.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/growth/growth.h"
#include "model/provider.h"
#include "simulate/engine_decider.h"
#include "simulate/growth_totals.h"
#include "simulate/replay.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

enum class GrowthPolicy {
  kNone,           // Only the cluster's own nodes.
  kNodePerJob,     // As a cluster autoscaler: the cheapest nodes for each waiting job; returned after 10 idle minutes.
                   // Any job may use a node that is there.
  kCheapestFirst,  // As a cloud broker: a job that cannot start at once gets the cheapest nodes for itself alone, and
                   // they are returned when it ends.
  kDivvy,          // engine/growth.
};
/// Returns the names of the policies for requesting cloud nodes, in the order of the enum: "none", "node-per-job",
/// "cheapest-first", "divvy".
const std::vector<std::string_view>& GrowthPolicyNames();
std::optional<GrowthPolicy> GrowthPolicyFromName(std::string_view name);

struct GrowthSetup {
  GrowthPolicy policy = GrowthPolicy::kDivvy;
  EngineRule engine;
  std::vector<Provider> providers;
  growth::GrowthRules rules;
};

class GrowthDecider : public Decider {
 public:
  /// Returns the totals of requested nodes and their cost up to the last decision, including nodes that still exist.
  virtual GrowthTotals Totals() const = 0;
};

/// Makes a simulation of a scheduler that also requests nodes of cloud providers. `cluster`: the nodes that always
/// exist; it may be empty. Fails like MakeEngineDecider.
Result<std::unique_ptr<GrowthDecider>> MakeGrowthDecider(const TraceCluster& cluster, const GrowthSetup& setup);

}  // namespace divvy::simulate
