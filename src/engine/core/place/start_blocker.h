// Finds the limits, quotas and impossible requests that keep a job from starting, whatever becomes free.
#pragma once

#include <optional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// The reasons why a job cannot start even if everything were free.
struct StartBlocker {
  std::optional<CapIndex> cap;
  TeamIndex over_limit = kRootTeam;
  TeamIndex over_quota = kRootTeam;
  bool could_never_run = false;
  bool any() const { return cap || over_limit != kRootTeam || over_quota != kRootTeam || could_never_run; }
};
StartBlocker StartBlockerOf(const ClusterState& state, ClassIndex job_class);

}  // namespace divvy::core
