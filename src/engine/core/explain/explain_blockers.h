// Finds everything that blocks one waiting job, with numbers and with the holders of the missing resources.
#pragma once

#include <vector>

#include "engine/core/explain/explanation.h"
#include "engine/core/place/job_perspective.h"

namespace divvy::core {

/// Returns the blockers, the hardest first. Empty: the next decision starts the job. Without `has_holders` blockers
/// name no holders, which costs less. Requires: the job of the view waits.
std::vector<Blocker> FindBlockers(JobPerspective& perspective, const Names& names, bool has_holders = true);

}  // namespace divvy::core
