#include "engine/core/caps.h"

#include <algorithm>

#include "engine/core/placing.h"
#include "engine/core/rights_kept.h"

namespace divvy::core {

bool IsCountedIn(const ClassKey& key, CapIndex cap) {
  return std::binary_search(key.caps.begin(), key.caps.end(), cap);
}

bool RefusesJobs(const Cap& cap, const CapUse& beside) {
  return cap.limit > 0 && cap.running + beside.jobs >= cap.limit;
}

bool RefusesGpus(const Cap& cap, std::int64_t milli, const CapUse& beside) {
  return cap.milli_limit > 0 && milli > 0 && cap.milli + beside.milli + milli > cap.milli_limit;
}

std::optional<CapIndex> RefusedBy(const Cluster::State& state, const std::vector<CapIndex>& caps, std::int64_t milli) {
  for (const CapIndex cap : caps) {
    if (Refuses(state.caps[cap], milli)) return cap;
  }
  return std::nullopt;
}

std::int64_t RoomToGrow(const Cluster::State& state, const std::vector<CapIndex>& caps) {
  std::int64_t room = kNoBound;
  for (const CapIndex index : caps) {
    const Cap& cap = state.caps[index];
    if (cap.milli_limit == 0) continue;
    const std::int64_t left = cap.milli_limit - cap.milli - KeptOfCap(state, index, kNever, IsAnybody).milli;
    room = std::min(room, std::max<std::int64_t>(left, 0));
  }
  return room;
}

namespace {

// Of what was told to leave, less what goes on elsewhere.
CapUse LeavingOf(const Cluster::State& state, CapIndex cap) {
  CapUse use;
  for (const JobId id : state.leaving) {
    const Run& run = state.running.at(id);
    if (!IsCountedIn(state.classes[run.job_class].key, cap)) continue;
    for (const Piece& piece : run.is_leaving ? run.pieces : run.leaving) {
      use.milli += ShapeOf(state.ask_of(run), piece).gpu_milli();
    }
    const auto moving = state.moving.find(id);
    if (run.is_leaving && moving == state.moving.end()) use.jobs += 1;
    if (moving == state.moving.end()) continue;
    for (const Piece& piece : moving->second.to) {
      use.milli -= ShapeOf(state.asks[moving->second.ask], piece).gpu_milli();
    }
  }
  return use;
}

CapUse ClaimedOf(const Cluster::State& state, CapIndex cap) {
  return KeptOfCap(state, cap, kNever, [](const PromiseSlot& slot) { return slot.promise.is_claim; });
}

}  // namespace

bool FitsItsCaps(const Cluster::State& state, ClassIndex index, const std::vector<CapLoss>& losses) {
  const JobClass& job_class = state.classes[index];
  return std::none_of(job_class.key.caps.begin(), job_class.key.caps.end(), [&](CapIndex cap) {
    if (!state.caps[cap].is_bound()) return false;
    const CapUse leaving = LeavingOf(state, cap);
    CapUse beside = ClaimedOf(state, cap);
    beside.jobs -= leaving.jobs;
    beside.milli -= leaving.milli;
    for (const CapLoss& loss : losses) {
      if (IsCountedIn(state.classes[loss.job_class].key, cap)) beside.milli -= loss.milli;
    }
    return Refuses(state.caps[cap], job_class.least_milli, beside);
  });
}

}  // namespace divvy::core
