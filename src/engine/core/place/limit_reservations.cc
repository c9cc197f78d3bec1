#include "engine/core/place/limit_reservations.h"

#include <algorithm>

#include "engine/core/place/caps.h"
#include "engine/core/place/placer.h"

namespace divvy::core {
namespace {

bool IsDated(const BackfillReservation& reservation) {
  return reservation.start != kNever && !reservation.is_nomination;
}

void AddUpwards(const Teams& teams, TeamIndex team, std::int64_t parts, TeamUse& use) {
  use.resize(std::max(use.size(), teams.size()));
  for (; team != kRootTeam; team = teams.spec(team).parent) use[team] += parts;
}

}  // namespace

CapUse KeptOfCap(const ClusterState& state, CapIndex cap, Time until, const IsBefore& is_before) {
  CapUse kept;
  for (const ReservationSlot& slot : state.reservations) {
    const JobClass& other = state.classes[slot.job_class];
    if ((IsDated(slot.reservation) && slot.reservation.start >= until) || !IsCountedIn(other.key, cap)) continue;
    if (!is_before(slot)) continue;
    kept.jobs += 1;
    kept.parts += other.least_parts;
  }
  return kept;
}

KeptOfTeams KeptByTeam(const ClusterState& state, Time until, const IsBefore& is_before) {
  KeptOfTeams kept;
  for (const ReservationSlot& slot : state.reservations) {
    if (slot.reservation.is_nomination || (IsDated(slot.reservation) && slot.reservation.start >= until) ||
        !is_before(slot))
      continue;
    const JobClass& other = state.classes[slot.job_class];
    AddUpwards(state.teams, other.key.team, other.least_parts, kept.all);
    if (other.is_firm()) AddUpwards(state.teams, other.key.team, other.least_parts, kept.firm);
  }
  return kept;
}

bool TeamsHaveRoom(const Teams& teams, TeamIndex team, bool is_firm, std::int64_t parts, const KeptOfTeams& kept) {
  if (!teams.has_rules()) return true;
  if (teams.OverLimit(team, parts, kept.all) != kRootTeam) return false;
  return !is_firm || teams.OverFirmQuota(team, parts, kept.firm) == kRootTeam;
}

bool HasRightsAt(const ClusterState& state, ClassIndex index, Time at, Time until, const IsBefore& is_before) {
  const JobClass& job_class = state.classes[index];
  const ClassKey& key = job_class.key;
  std::vector<CapUse> beside;
  for (const CapIndex cap : key.caps) beside.push_back(KeptOfCap(state, cap, until, is_before));
  KeptOfTeams of_teams;
  if (state.teams.has_rules()) of_teams = KeptByTeam(state, until, is_before);
  for (auto end = state.ends.begin(); end != state.ends.end() && end->first <= at; ++end) {
    const Run& run = state.running.at(end->second);
    const JobClass& other = state.classes[run.job_class];
    const std::int64_t parts = state.PartsOf(run);
    for (std::size_t i = 0; i < key.caps.size(); ++i) {
      if (!IsCountedIn(other.key, key.caps[i])) continue;
      beside[i].jobs -= 1;
      beside[i].parts -= parts;
    }
    if (!state.teams.has_rules()) continue;
    AddUpwards(state.teams, other.key.team, -parts, of_teams.all);
    if (other.is_firm()) AddUpwards(state.teams, other.key.team, -parts, of_teams.firm);
  }
  for (std::size_t i = 0; i < key.caps.size(); ++i) {
    if (Refuses(state.caps[key.caps[i]], job_class.least_parts, beside[i])) return false;
  }
  return TeamsHaveRoom(state.teams, key.team, job_class.is_firm(), job_class.least_parts, of_teams);
}

std::int64_t RoomToGrow(const ClusterState& state, const std::vector<CapIndex>& caps) {
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
CapUse LeavingOf(const ClusterState& state, CapIndex cap) {
  CapUse use;
  for (const JobId id : state.leaving) {
    const Run& run = state.running.at(id);
    if (!IsCountedIn(state.classes[run.job_class].key, cap)) continue;
    for (const TaskPlacement& placed : run.is_leaving ? run.placements : run.leaving) {
      use.parts += ShapeOf(state.request_of(run), placed).gpu_parts();
    }
    const auto moving = state.moving.find(id);
    if (run.is_leaving && moving == state.moving.end()) use.jobs += 1;
    if (moving == state.moving.end()) continue;
    for (const TaskPlacement& placed : moving->second.to) {
      use.parts -= ShapeOf(state.requests[moving->second.request], placed).gpu_parts();
    }
  }
  return use;
}

CapUse ClaimedOf(const ClusterState& state, CapIndex cap) {
  return KeptOfCap(state, cap, kNever, [](const ReservationSlot& slot) { return slot.reservation.is_nomination; });
}

}  // namespace

bool FitsItsCaps(const ClusterState& state, ClassIndex index, const std::vector<CapLoss>& losses) {
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
