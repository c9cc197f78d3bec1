// Priority, then the longest wait.
#include "engine/core/state/order.h"

namespace divvy::core {

void RankFifo(const Standing& standing, std::int64_t* rank) {
  rank[0] = -std::int64_t{standing.place.priority};
  rank[1] = standing.place.since.time_since_epoch().count();
}

}  // namespace divvy::core
