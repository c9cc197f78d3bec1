// GPUs that are kept for somebody in a stretch of time.
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/core/state/state.h"
#include "engine/server/server.h"

namespace divvy {
namespace {

/// Nobody's yet.
core::Booking BookingOf(core::Cluster& core, std::uint64_t id, int gpus, Time from, Time until) {
  Request request;
  request.gpus = gpus;
  core::Booking booking;
  booking.id = id;
  booking.ask = core.Know(AskOf(request, PlacementStrategy::kSequential, gpus));
  booking.from = from;
  booking.until = until;
  return booking;
}

}  // namespace

std::optional<std::uint64_t> Server::Book(int gpus, const std::string& team, const std::string& user, Time from,
                                          Time until, Time now) {
  now_ = std::max(now_, now);
  core::Booking booking = BookingOf(core_, ++last_booking_, gpus, from, until);
  // Nobody's until it is there: what is kept for its owner already is not kept a second time.
  booking.user = std::numeric_limits<core::UserIndex>::max();
  const auto booked = core_.Book(std::move(booking), now);
  if (!booked) return std::nullopt;
  core::Booking& made = core_.state().bookings.back();
  made.team = TeamOf(team);
  made.user = user.empty() ? std::nullopt : std::optional(UserOf(user));
  return booked->id;
}

std::optional<std::uint64_t> Server::BookAt(const NodePlace& place, const std::string& team, const std::string& user,
                                            Time from, Time until) {
  if (place.gpus.empty() || place.node >= book_.nodes().size() || !(place.gpus - node(place.node).present()).empty())
    return std::nullopt;
  core::Booking booking = BookingOf(core_, ++last_booking_, place.gpus.size(), from, until);
  booking.pieces = {{place.node, {place.gpus}}};
  booking.team = TeamOf(team);
  if (!user.empty()) booking.user = UserOf(user);
  core_.Book(std::move(booking), now_);
  return last_booking_;
}

void Server::Unbook(std::uint64_t booking) { core_.Unbook(booking); }

}  // namespace divvy
