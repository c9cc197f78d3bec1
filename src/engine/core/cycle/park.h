// Time-sharing of whole GPUs: running jobs are parked in host memory so that a newcomer starts (docs/time-sharing.md).
// The caller chooses which jobs may be parked, for which newcomers, and at what cost. Nothing is parked unless the
// newcomer then starts.
//
// Among the sets of jobs of one node that suffice, the choice is: fewest idle GPUs, then the least total weight, then
// the lowest node. A parked job keeps its CPUs and its memory, and needs host memory for the content of its GPUs. Its
// GPUs are nominated for the newcomer (nominations.h), and stay with it until it is away.
#pragma once

#include <functional>
#include <vector>

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// A running job of one task with whole GPUs that may be parked now.
struct Parkable {
  JobId job;
  std::int64_t weight = 0;      // Jobs with less are parked first.
  std::int32_t memory_mib = 0;  // Host memory that it needs in addition.
};

struct Park {
  JobId newcomer;
  std::vector<Parkable> victims;
};

/// Newcomers for which victims are searched in one decision. The others follow in the next one.
inline constexpr int kMostNewcomers = 32;

/// Finds running jobs to park so that waiting newcomers can start, and returns them. This is applied to `cluster`
/// already: the GPUs of the parked jobs are kept for the newcomers (nominated), and the host memory that they need is
/// counted. No parked job has a higher priority than its newcomer. Cost: O(newcomers x parkable jobs x 64), for at most
/// kMostNewcomers.
std::vector<Park> RequestParks(Cluster& cluster, std::vector<Parkable> parkable,
                               const std::function<bool(JobId entry)>& is_newcomer, Time now);

}  // namespace divvy::core
