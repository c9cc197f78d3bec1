#include "engine/core/place/caps.h"

#include <algorithm>

namespace divvy::core {

bool IsCountedIn(const ClassKey& key, CapIndex cap) {
  return std::binary_search(key.caps.begin(), key.caps.end(), cap);
}

bool RefusesJobs(const Cap& cap, const CapUse& beside) {
  return cap.limit > 0 && cap.running + beside.jobs >= cap.limit;
}

bool RefusesGpus(const Cap& cap, std::int64_t parts, const CapUse& beside) {
  return cap.parts_limit > 0 && parts > 0 && cap.parts + beside.parts + parts > cap.parts_limit;
}

std::optional<CapIndex> RefusedBy(const ClusterState& state, const std::vector<CapIndex>& caps, std::int64_t parts) {
  for (const CapIndex cap : caps) {
    if (Refuses(state.caps[cap], parts)) return cap;
  }
  return std::nullopt;
}

}  // namespace divvy::core
