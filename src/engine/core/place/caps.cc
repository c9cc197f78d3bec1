#include "engine/core/place/caps.h"

#include <algorithm>

#include "engine/core/place/limit_reservations.h"
#include "engine/core/place/placer.h"

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

std::optional<CapIndex> RefusedBy(const Cluster::State& state, const std::vector<CapIndex>& caps, std::int64_t parts) {
  for (const CapIndex cap : caps) {
    if (Refuses(state.caps[cap], parts)) return cap;
  }
  return std::nullopt;
}

std::int64_t RoomToGrow(const Cluster::State& state, const std::vector<CapIndex>& caps) {
  std::int64_t room = kNoBound;
  for (const CapIndex index : caps) {
    const Cap& cap = state.caps[index];
    if (cap.parts_limit == 0) continue;
    const std::int64_t left = cap.parts_limit - cap.parts - KeptOfCap(state, index, kNever, IsAnybody).parts;
    room = std::min(room, std::max<std::int64_t>(left, 0));
  }
  return room;
}

namespace {

// Usage of the cap that jobs were told to release, minus what migrates and so stays in use.
CapUse LeavingOf(const Cluster::State& state, CapIndex cap) {
  CapUse use;
  for (const JobId id : state.leaving) {
    const Run& run = state.running.at(id);
    if (!IsCountedIn(state.classes[run.job_class].key, cap)) continue;
    for (const TaskPlacement& piece : run.is_leaving ? run.pieces : run.leaving) {
      use.parts += ShapeOf(state.ask_of(run), piece).gpu_parts();
    }
    const auto moving = state.moving.find(id);
    if (run.is_leaving && moving == state.moving.end()) use.jobs += 1;
    if (moving == state.moving.end()) continue;
    for (const TaskPlacement& piece : moving->second.to) {
      use.parts -= ShapeOf(state.asks[moving->second.ask], piece).gpu_parts();
    }
  }
  return use;
}

CapUse ClaimedOf(const Cluster::State& state, CapIndex cap) {
  return KeptOfCap(state, cap, kNever, [](const ReservationSlot& slot) { return slot.reservation.is_claim; });
}

}  // namespace

bool FitsItsCaps(const Cluster::State& state, ClassIndex index, const std::vector<CapLoss>& losses) {
  const JobClass& job_class = state.classes[index];
  return std::none_of(job_class.key.caps.begin(), job_class.key.caps.end(), [&](CapIndex cap) {
    if (!state.caps[cap].is_bound()) return false;
    const CapUse leaving = LeavingOf(state, cap);
    CapUse beside = ClaimedOf(state, cap);
    beside.jobs -= leaving.jobs;
    beside.parts -= leaving.parts;
    for (const CapLoss& loss : losses) {
      if (IsCountedIn(state.classes[loss.job_class].key, cap)) beside.parts -= loss.parts;
    }
    return Refuses(state.caps[cap], job_class.least_parts, beside);
  });
}

}  // namespace divvy::core
