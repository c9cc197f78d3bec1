// The two ways in which the tests of the single-server engine are run over the engine for many nodes.
#pragma once

#include "engine/port/cluster.h"

namespace divvy::port {

/// Keeps what it has promised from one decision to the next, as the daemon does.
struct DecidingCluster : Cluster {
  static constexpr bool kDecidesItself = true;
};

}  // namespace divvy::port
