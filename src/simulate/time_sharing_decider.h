// The engine's rule for time-sharing (engine/time_sharing) behind the replay's interface. There is one queue for each
// team with its own nodes and one for the rest, as with the baseline policies. The rule knows no run times.
//
// A job of more GPUs than a node has is a gang: it fills whole nodes, and its rest goes on one more node. Gangs are
// never parked. A fraction of a GPU counts as a whole GPU.
#pragma once

#include <memory>

#include "base/result.h"
#include "engine/time_sharing/time_sharing.h"
#include "simulate/replay.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

struct TimeSharingRule {
  time_sharing::Options options;
  /// Jobs of more GPUs are never parked. 0: no job is.
  int parkable_gpus = 64;
  /// Host memory of each node in multiples of its GPUs' memory.
  double host_memory = 1;
};

/// Makes a scheduler with time-sharing, which parks running jobs for waiting ones. A job that fits on no node is never
/// started.
std::unique_ptr<Decider> MakeTimeSharing(const TraceCluster& cluster, const TimeSharingRule& rule);

}  // namespace divvy::simulate
