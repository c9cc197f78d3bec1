// Finds room that a job may not use because it is kept for others: by backfill reservations, by nominations for
// preemptors, and by advance reservations. A future advance reservation also counts where running jobs use the room
// now, if too little room besides it remains once these jobs end.
#pragma once

#include <vector>

#include "engine/core/explain/explanation.h"
#include "engine/core/place/job_perspective.h"

namespace divvy::core {

/// Returns one blocker for each waiting job and each advance reservation for which resources are reserved that the job
/// of `perspective` needs. Requires: there is no room for that job now.
std::vector<Blocker> FindReservations(const JobPerspective& perspective);

}  // namespace divvy::core
