// Running elastic jobs release surplus GPUs if that lets a waiting job start: "surplus is first to go". No job is ended
// for it and none goes below its minimum, so neither preemption rights nor `wait_before` apply.
// Only as many GPUs as needed are requested, and only if the preemptor then starts. Among all suitable sets, the choice
// is: fewest GPUs, then fewest jobs, then jobs that grew last, then the best connected set for the preemptor, then the
// lowest indices. The requested GPUs are nominated for the preemptor (nominations.h), and stay with their owner until
// it releases them.
#pragma once

#include <vector>

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// A running job of one task that may be reduced to fewer GPUs.
struct Surplus {
  JobId job;
  int most = 0;          // How many GPUs it may release, not counting those requested before.
  Time grown = kNoTime;  // When it last grew.
};

struct ElasticShrink {
  struct Part {
    JobId job;
    GpuSet gpus;  // Not counting those requested before.
  };
  JobId preemptor;
  std::vector<Part> parts;
};

/// Jobs for which surplus is searched in one decision.
inline constexpr int kMostAskers = 32;

/// Asks elastic jobs to release GPUs so that waiting jobs can start. Returns these requests. They are applied to
/// `cluster` already: the jobs count with their new sizes, and the GPUs are kept for the waiting jobs (nominated).
std::vector<ElasticShrink> RequestShrinks(Cluster& cluster, std::vector<Surplus> surplus, Time now);

}  // namespace divvy::core
