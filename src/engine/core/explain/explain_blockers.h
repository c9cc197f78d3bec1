// Finds everything that blocks one waiting job, with numbers and with the holders of the missing resources.
#pragma once

#include <vector>

#include "engine/core/explain/explanation.h"
#include "engine/core/place/job_perspective.h"

namespace divvy::core {

/// Returns what keeps the waiting job of `perspective` from starting, the hardest blocker first. Empty if the next
/// scheduling cycle starts it. `has_holders`: also name the running jobs that hold what it needs, which costs more.
std::vector<Blocker> FindBlockers(JobPerspective& perspective, const Names& names, bool has_holders = true);

}  // namespace divvy::core
