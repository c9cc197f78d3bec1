// The whole queue in the order in which it is looked at.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Waiting entries, those not in line last (by priority, begin time and id); at most `limit` of them (0: all).
/// Cost: O(classes + entries given x log classes).
std::vector<JobId> QueueOrder(const Cluster& cluster, Time now, std::size_t limit);

}  // namespace divvy::core
