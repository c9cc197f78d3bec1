// Finds the running jobs that hold what a blocked job lacks, sorted by expected end.
#pragma once

#include <functional>

#include "engine/core/explain/explanation.h"
#include "engine/core/state/state.h"

namespace divvy::core {

/// Adds to `blocker` the running jobs for which `has` returns true, at most kMostHolders. Each is listed with what it
/// holds on `nodes`, or on all nodes if it has nothing there. Checks the few thousand jobs that end first, then jobs on
/// `nodes` whose end is not known.
void AddHolders(const ClusterState& state, Time now, const std::function<bool(const Run&)>& has,
                const std::vector<NodeIndex>& nodes, Blocker& blocker);

/// True if the run has a task placement on a node of one of these classes; `with_gpus`: one with GPUs.
bool IsOnNodeClasses(const ClusterState& state, const Run& run, placement::ModelSet node_classes, bool with_gpus);

}  // namespace divvy::core
