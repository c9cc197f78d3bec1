// Explains why a job waits, its place in the queue, when it will start, and which small change would start it now. The
// answers are plain values with complete sentences for users.
//
// The answer describes the cluster as the last decision left it. It comes from the code that decides: the job is tried
// as the next decision would try it (job_perspective.h). Explaining changes nothing.
//
// Cost: one look at every job class and every node, and a few more at nodes with room. Waiting jobs are never
// enumerated. docs/engine.md has the figures.
#pragma once

#include <cstdint>

#include "engine/core/explain/explanation.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Explains one waiting job. For a job that does not wait, is_waiting is false and the rest is empty.
///
/// The engine does not know holds and dependencies: the caller adds these blockers (engine/scheduler/explain.h). The
/// change that would start the job costs the most and is searched only with `seeks_change`. For an array, position and
/// start are those of the element behind the next `members_before`; all elements have the same blockers.
Explanation Explain(const Cluster& cluster, JobId entry, Time now, const Names& names = {}, const SpreadOf& spread = {},
                    bool seeks_change = true, std::uint64_t members_before = 0);

}  // namespace divvy::core
