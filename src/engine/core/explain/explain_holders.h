// Who has what a blocked job lacks: running jobs, those that end first before the others.
#pragma once

#include <functional>

#include "engine/core/explain/explain.h"
#include "engine/core/state/state.h"

namespace divvy::core {

/// Adds to `blocker` the running jobs that `has` it, at most kMostHolders, each with what it has on `nodes`. Looks at
/// the first few thousand ends, then for jobs whose end nobody knows on `nodes`.
void AddHolders(const Cluster::State& state, Time now, const std::function<bool(const Run&)>& has,
                const std::vector<NodeIndex>& nodes, Blocker& blocker);

/// The run has a piece with GPUs (or any piece) on a node of one of these kinds.
bool IsOnKinds(const Cluster::State& state, const Run& run, placement::ModelSet kinds, bool with_gpus);

}  // namespace divvy::core
