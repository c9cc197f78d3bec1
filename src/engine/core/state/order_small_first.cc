// Priority, then escalated jobs (oldest first), then fewer GPUs, then the longest wait.
// Source: the order that Valohai documents for its GPU queues.
#include "engine/core/state/order.h"

namespace divvy::core {

void RankSmallFirst(const PoolRules& rules, const Standing& standing, Time now, std::int64_t* rank) {
  const bool is_escalated = IsEscalated(rules, standing.place.since, now);
  rank[0] = -std::int64_t{standing.place.priority};
  rank[1] = is_escalated ? 0 : 1;
  rank[2] = is_escalated ? 0 : standing.gpu_parts;
  rank[3] = standing.place.since.time_since_epoch().count();
}

}  // namespace divvy::core
