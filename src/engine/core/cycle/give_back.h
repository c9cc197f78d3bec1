// Elastic jobs that run on more than their fewest give it back where that lets a job start that waits: "surplus is
// first to go". Nobody is ended for it and nobody loses what they asked for, so neither rights nor patience matter.
//
// Only what is needed is asked for, and only if the taker then starts. Of all sets that would do, the one with the
// fewest GPUs, then of the fewest jobs, then of those that grew last, then the best connected for the taker, then the
// lowest indices. What is asked for is claimed for the taker (claims.h) and stays its owner's until it is given back.
#pragma once

#include <vector>

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// A running job of one task that may have fewer GPUs.
struct Surplus {
  JobId job;
  int most = 0;          // So many, beside those that it was asked for before.
  Time grown = kNoTime;  // Since when it has what it has.
};

struct GiveBack {
  struct Part {
    JobId job;
    GpuSet gpus;  // Beside those that it was asked for before.
  };
  JobId taker;
  std::vector<Part> parts;
};

/// Jobs for which surplus is looked for in one decision.
inline constexpr int kMostAskers = 32;

/// Applied already: the jobs have been told (Resize), and what they are to give back is claimed.
std::vector<GiveBack> AskBack(Cluster& cluster, std::vector<Surplus> surplus, Time now);

}  // namespace divvy::core
