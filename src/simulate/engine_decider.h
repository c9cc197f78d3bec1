// The production scheduler behind the replay's interface: the same core::Cluster that the daemon runs, fed from a
// trace.
//
// A job of up to a node's GPUs is one task on one node. A larger job is a gang that fills whole nodes, and has the rest
// on one more node. Jobs request nothing that the trace does not have (CPUs, memory, time limits).
//
// The scheduler knows nothing about a job that it could not know at that moment, except with Predicting::kTrue.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/core/state/rules.h"
#include "engine/run_times.h"
#include "simulate/replay.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

enum class Predicting {
  kNone,
  kHistory,  // From the jobs that have ended by then: engine/run_times.h.
  kTrue,     // The true run time, as prediction and as time limit. Shows the benefit of perfect knowledge.
};

struct EngineRule {
  core::Rules rules;
  Predicting predicting = Predicting::kHistory;
  bool uses_limits = true;  // Uses the trace's time limits, if it has them.
  bool uses_teams = false;  // The trace's teams become teams of equal weight. False: all users are in one team.
  PlacementStrategy placement = PlacementStrategy::kBest;
};

/// "small-first", "fifo", "fair", "shortest".
const std::vector<std::string_view>& EnginePolicyNames();
std::optional<QueuePolicy> EnginePolicyFromName(std::string_view name);

class EngineDecider : public Decider {
 public:
  /// Accuracy of the predictions from history. All zero for the other kinds.
  virtual RunTimes::Accuracy accuracy() const = 0;
};

/// Fails if the cluster has more node classes, or a node has more GPUs, than the scheduler supports. A job that no node
/// can ever hold is never started.
Result<std::unique_ptr<EngineDecider>> MakeEngineDecider(const TraceCluster& cluster, const EngineRule& rule);

}  // namespace divvy::simulate
