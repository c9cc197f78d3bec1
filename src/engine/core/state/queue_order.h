// The whole queue in scheduling order.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Returns waiting entries in scheduling order, at most `limit` of them (0: all). Entries that cannot start yet (held
/// or dated) come last, by priority, begin time and id. Cost: O(classes + entries returned x log classes).
std::vector<JobId> QueueOrder(const Cluster& cluster, Time now, std::size_t limit);

}  // namespace divvy::core
