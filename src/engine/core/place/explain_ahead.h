// A job's queue position: counts the members of all classes that come before it, class by class, without walking the
// queues. Works for every queue policy.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

struct Ahead {
  struct Part {
    ClassIndex job_class = 0;
    std::uint64_t members = 0;  // The first members of the class.
  };
  std::uint64_t members = 0;
  std::uint64_t own = 0;       // Out of these, the next members of the job's own array.
  std::int64_t gpu_parts = 0;  // Minimum GPU parts of these members.
  std::vector<Part> parts;
};

/// Counts the waiting jobs that come before the queue position `key`, by job class. Requires: no other job has exactly
/// this key. Cost: O(classes x log time).
Ahead CountAhead(const ClusterState& state, const Key& key, Time now);

}  // namespace divvy::core
