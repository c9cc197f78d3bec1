// What holds one waiting job back, all of it, with numbers and with those who have what is missing.
#pragma once

#include <vector>

#include "engine/planner.h"

namespace divvy {

/// Requires: the planner has run and does not start `entry`. The hardest first: what never changes by itself, then what
/// only its owner or another job changes, then what time alone brings.
std::vector<Blocker> FindBlockers(const Cluster& cluster, const Planner& planner, const WaitingEntry& entry,
                                  const JobClass& job_class, Time now);

}  // namespace divvy
