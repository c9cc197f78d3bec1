// The two ways in which the tests of the single-server engine are run over the engine for many nodes.
#pragma once

#include "engine/port/cluster.h"

namespace divvy::port {

/// Keeps what it has promised from one decision to the next, as the daemon does.
struct DecidingCluster : Cluster {
  static constexpr bool kDecidesItself = true;
};

/// Scenarios in which the engine for many nodes answers otherwise, and why.
struct Deviation {
  const char* scenario;
  const char* why;
};
inline constexpr Deviation kDeviations[] = {
    {"escalation/large_job_is_not_starved.txt",
     "an escalated job drains only GPUs that nobody else waits for; behind one that drains all it is promised nothing"},
};
/// Of those that keep their promises as well.
inline constexpr Deviation kDecidingDeviations[] = {
    kDeviations[0],
    {"elastic/delays_no_reservation.txt",
     "a promise that stands moves only to an earlier start, not to lower indices at the same time"},
};

}  // namespace divvy::port
