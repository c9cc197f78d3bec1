// The smallest change of a request that would start it now, found by asking the planner itself about changed requests.
#pragma once

#include <string>

#include "engine/planner.h"

namespace divvy {

/// "" where no single change of the request helps. What costs the job least comes first: a time limit, then the kind of
/// GPU, then CPUs and memory, then the number of GPUs. Requires: `entry` waits, is in line and does not start.
/// Cost: a few passes, at most one per GPU asked for.
std::string SuggestChange(const Cluster& cluster, const Policy& policy, const Planner& planner,
                          const WaitingEntry& entry, const JobClass& job_class, Time now);

}  // namespace divvy
