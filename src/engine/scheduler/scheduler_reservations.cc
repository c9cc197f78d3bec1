// Advance reservations: GPUs that are kept for a team or user between two times.
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/core/state/state.h"
#include "engine/scheduler/scheduler.h"
#include "engine/scheduler/translate.h"

namespace divvy {
namespace {

/// Returns an advance reservation without an owner.
core::AdvanceReservation AdvanceReservationOf(core::Cluster& core, std::uint64_t id, int gpus, Time from, Time until) {
  Request request;
  request.gpus = gpus;
  core::AdvanceReservation advance;
  advance.id = id;
  advance.request = core.Know(ResourceRequestOf(request, PlacementStrategy::kSequential, gpus));
  advance.from = from;
  advance.until = until;
  return advance;
}

}  // namespace

std::optional<std::uint64_t> Scheduler::Reserve(int gpus, const std::string& team, const std::string& user, Time from,
                                                Time until, Time now) {
  now_ = std::max(now_, now);
  core::AdvanceReservation advance = AdvanceReservationOf(core_, ++last_reservation_, gpus, from, until);
  // While resources are searched, the advance reservation has no owner. Otherwise GPUs that are already reserved for
  // the same owner could be chosen again.
  advance.user = std::numeric_limits<core::UserIndex>::max();
  const auto reserved = core_.Reserve(std::move(advance), now);
  if (!reserved) return std::nullopt;
  core::AdvanceReservation& made = core_.state().advance_reservations.back();
  made.team = TeamOf(team);
  made.user = user.empty() ? std::nullopt : std::optional(UserOf(user));
  return reserved->id;
}

std::optional<std::uint64_t> Scheduler::ReserveAt(const NodeResources& place, const std::string& team,
                                                  const std::string& user, Time from, Time until) {
  if (place.gpus.empty() || place.node >= facts_.nodes().size() || !(place.gpus - node(place.node).present()).empty())
    return std::nullopt;
  core::AdvanceReservation advance = AdvanceReservationOf(core_, ++last_reservation_, place.gpus.size(), from, until);
  advance.placements = {{place.node, {place.gpus}}};
  advance.team = TeamOf(team);
  if (!user.empty()) advance.user = UserOf(user);
  const auto reserved = core_.Reserve(std::move(advance), now_);
  return reserved ? std::optional(reserved->id) : std::nullopt;
}

void Scheduler::CancelReservation(std::uint64_t advance) { core_.CancelReservation(advance); }

}  // namespace divvy
