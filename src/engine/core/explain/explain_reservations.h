// Room that a job may not use because it is kept for others: for jobs that were promised a start, for those that what
// was taken back goes to, and by reservations that people made. A reservation ahead counts also where running jobs have
// the room now, if there is too little beside it once they end.
#pragma once

#include <vector>

#include "engine/core/explain/explain.h"
#include "engine/core/place/explain_view.h"

namespace divvy::core {

/// One blocker for each of those for whom something is kept. Requires: the view has no room.
std::vector<Blocker> FindReservations(const View& view);

}  // namespace divvy::core
