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
core::AdvanceReservation BookingOf(core::Cluster& core, std::uint64_t id, int gpus, Time from, Time until) {
  Request request;
  request.gpus = gpus;
  core::AdvanceReservation booking;
  booking.id = id;
  booking.ask = core.Know(AskOf(request, PlacementStrategy::kSequential, gpus));
  booking.from = from;
  booking.until = until;
  return booking;
}

}  // namespace

std::optional<std::uint64_t> Scheduler::Reserve(int gpus, const std::string& team, const std::string& user, Time from,
                                                Time until, Time now) {
  now_ = std::max(now_, now);
  core::AdvanceReservation booking = BookingOf(core_, ++last_booking_, gpus, from, until);
  // No owner while it is placed: GPUs that are already kept for the same owner must not be used again.
  booking.user = std::numeric_limits<core::UserIndex>::max();
  const auto booked = core_.Book(std::move(booking), now);
  if (!booked) return std::nullopt;
  core::AdvanceReservation& made = core_.state().bookings.back();
  made.team = TeamOf(team);
  made.user = user.empty() ? std::nullopt : std::optional(UserOf(user));
  return booked->id;
}

std::optional<std::uint64_t> Scheduler::ReserveAt(const NodePlace& place, const std::string& team,
                                                  const std::string& user, Time from, Time until) {
  if (place.gpus.empty() || place.node >= book_.nodes().size() || !(place.gpus - node(place.node).present()).empty())
    return std::nullopt;
  core::AdvanceReservation booking = BookingOf(core_, ++last_booking_, place.gpus.size(), from, until);
  booking.pieces = {{place.node, {place.gpus}}};
  booking.team = TeamOf(team);
  if (!user.empty()) booking.user = UserOf(user);
  const auto booked = core_.Book(std::move(booking), now_);
  return booked ? std::optional(booked->id) : std::nullopt;
}

void Scheduler::CancelReservation(std::uint64_t booking) { core_.Unbook(booking); }

}  // namespace divvy
