// The scheduler's own decisions behind the replay's interface: the same core::Cluster that the daemon runs, fed from a
// trace.
//
// A job of up to a node's GPUs is one task on one node; a larger one is a gang that fills whole nodes, and what is left
// over goes on one more. What a trace does not tell (CPUs, memory, time limits) nobody asks for.
//
// Nothing is known of a job that the scheduler could not know at that moment, but for Predicting::kTrue.
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
  kTrue,     // The true run time, as prediction and as time limit: what perfect knowledge would buy.
};

struct EngineRule {
  core::Rules rules;
  Predicting predicting = Predicting::kHistory;
  bool uses_limits = true;  // The trace's time limits, where it has them.
  bool uses_teams = false;  // The trace's teams are teams of equal weight; else everybody is of one.
  PlacementStrategy placement = PlacementStrategy::kBest;
};

/// "small-first", "fifo", "fair", "shortest".
const std::vector<std::string_view>& EngineOrderNames();
std::optional<core::Order> EngineOrderFromName(std::string_view name);

class EngineDecider : public Decider {
 public:
  /// How good the predictions from history were; all zero for the other kinds.
  virtual RunTimes::Accuracy accuracy() const = 0;
};

/// Fails where the cluster is of more kinds, or a node has more GPUs, than the scheduler tells apart. A job that no
/// node can ever hold is never started.
Result<std::unique_ptr<EngineDecider>> MakeEngineDecider(const TraceCluster& cluster, const EngineRule& rule);

}  // namespace divvy::simulate
