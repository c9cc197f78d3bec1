// The whole queue in scheduling order.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Returns waiting jobs and arrays in the order in which they are scheduled, at most `limit` of them (0: all). Those
/// that cannot start yet (held, or with a later begin time) come last, by priority, begin time and id. Cost: O(classes
/// + jobs returned x log classes).
std::vector<JobId> QueueOrder(const Cluster& cluster, Time now, std::size_t limit);

}  // namespace divvy::core
