// From when a blocked job can have what it needs, and on which GPUs: the reservation that is held for it.
//
// Running jobs are seen to end at their time limits, else when they are predicted to; their ends are walked in order
// until the job fits, so the cost is that of the ends before its start. Where no known end gives one, an escalated job
// drains: it is given the GPUs that are free or whose owners have run longest, as they become free.
// Source: EASY backfill (Lifka 1995; Mu'alem and Feitelson 2001), GPU by GPU.
#pragma once

#include <optional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// What is already held binds. Nothing where nothing can be held.
std::optional<Promise> Earliest(Cluster::State& state, ClassIndex job_class, JobId entry, Time now, bool may_drain);

/// Places for all tasks that nothing else is promised, to be kept as they become free. Nothing where there are none.
std::optional<Promise> DrainFor(const Cluster::State& state, const Ask& ask);
/// These places still are such.
bool DrainStands(const Cluster::State& state, const Ask& ask, const std::vector<Piece>& pieces);
/// The same, if fewer owners have to leave than have to leave `than`; `nodes` have changed.
std::optional<Promise> BetterDrain(const Cluster::State& state, const Ask& ask, const std::vector<NodeIndex>& nodes,
                                   const std::vector<Piece>& than);

/// The same looking only at these nodes: nothing, or a promise that starts before `before`. For asks of one task.
std::optional<Promise> EarlierOn(Cluster::State& state, ClassIndex job_class, JobId entry, Time now,
                                 const std::vector<NodeIndex>& nodes, Time before);

/// It would fit on the cluster if nothing else ran.
bool CouldRun(const Cluster::State& state, const Ask& ask);

}  // namespace divvy::core
