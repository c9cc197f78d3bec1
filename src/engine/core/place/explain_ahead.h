// Where a job stands in line: how many members of all lines are looked at before it, counted class by class without
// walking the lines, whatever the order's keys are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

struct Ahead {
  struct Part {
    ClassIndex job_class = 0;
    std::uint64_t members = 0;  // Its first ones.
  };
  std::uint64_t members = 0;
  std::uint64_t own = 0;       // Of these, the next members of the job's own array.
  std::int64_t gpu_parts = 0;  // That they want at least.
  std::vector<Part> parts;
};

/// Requires: nobody but the asking job has exactly this key. Cost: O(classes x log time).
Ahead CountAhead(const Cluster::State& state, const Key& key, Time now);

}  // namespace divvy::core
