#include "control/state/reservation_bookings.h"

#include <algorithm>

#include "base/text.h"
#include "engine/scheduler/idle_gpus.h"

namespace divvy {
namespace {

constexpr Duration kTryAgain = std::chrono::minutes(1);

Status MayReserve(const Caller& caller) {
  if (caller.is_admin) return {};
  return PermissionDenied("reserving GPUs takes an administrator; " + CallerName(caller) + " is not one");
}

Status FitsOneMachine(const Scheduler& cluster, int gpus) {
  int largest = 0;
  for (const NodeUsage& node : cluster.nodes()) largest = std::max(largest, node.taking().size());
  if (gpus <= largest) return {};
  if (largest == 0) return FailedPrecondition("no node that accepts work has a GPU; divvy nodes lists them");
  return FailedPrecondition("a reservation is on one node, and the largest that accepts work has " +
                            Plural(largest, "GPU") + "; reserve " + Plural(gpus, "GPU") + " in parts of at most " +
                            std::to_string(largest));
}

}  // namespace

Result<GpuReservation> ReservationBookings::Reserve(GpuReservation asked, const Caller& caller, Time now) {
  DIVVY_CHECK(MayReserve(caller));
  asked.by = caller.user.name;
  if (!asked.team.empty() && teams_.Find(asked.team) == nullptr)
    return NotFound("there is no team " + asked.team + "; divvy teams lists them");
  DIVVY_TRY(const GpuReservation made, registry_.Make(std::move(asked), now));
  DIVVY_CHECK(FitsOneMachine(scheduler_, made.gpus));
  const std::vector<ReservationOccurrence> turns = TurnsOf(made, now, now + kBookingHorizon);
  for (const ReservationOccurrence& turn : turns) {
    if (BookTurn(made, turn, now)) continue;
    const std::string refusal = WhyNoRoom(made, turn, now);
    for (const ReservationOccurrence& other : turns) Unbook(other.id);
    return FailedPrecondition(refusal);
  }
  effects_.KeepSetting(registry_.Add(made));
  next_booking_ = kNoTime;
  effects_.RequestPlan();
  return made;
}

Result<std::string> ReservationBookings::CancelReservation(const std::string& which, const Caller& caller, Time now) {
  DIVVY_TRY(const GpuReservation reservation, registry_.Find(which));
  if (reservation.user != caller.user.name) DIVVY_CHECK(MayReserve(caller));
  effects_.KeepSetting(registry_.Remove(reservation.number));
  for (const ReservationOccurrence& turn : TurnsOf(reservation, now, now + kBookingHorizon)) Unbook(turn.id);
  effects_.RequestPlan();
  return "reservation " + std::to_string(reservation.number) + " is cancelled";
}

bool ReservationBookings::BookTurn(const GpuReservation& reservation, const ReservationOccurrence& turn, Time now) {
  if (bookings_.contains(turn.id)) return true;
  const auto booked =
      scheduler_.Reserve(reservation.gpus, reservation.team, reservation.user, turn.from, turn.until, now);
  if (!booked) return false;
  bookings_[turn.id] = {*booked, turn.until};
  effects_.RequestPlan();
  return true;
}

// After a restart or a change of teams, an occurrence that is in force keeps its place, even while its node is
// disconnected.
bool ReservationBookings::BookAgain(const GpuReservation& reservation, const ReservationOccurrence& turn, Time now) {
  const GpuReservation::Kept& kept = reservation.kept;
  const auto node = nodes_.IndexOf(kept.node);
  if (turn.from > now || kept.turn != turn.id || !node || bookings_.contains(turn.id))
    return BookTurn(reservation, turn, now);
  NodeResources place;
  place.node = *node;
  place.gpus = kept.gpus;
  const auto booked = scheduler_.ReserveAt(place, reservation.team, reservation.user, turn.from, turn.until);
  if (!booked) return BookTurn(reservation, turn, now);
  bookings_[turn.id] = {*booked, turn.until};
  effects_.RequestPlan();
  return true;
}

void ReservationBookings::Unbook(std::uint64_t turn) {
  const auto at = bookings_.find(turn);
  if (at == bookings_.end()) return;
  scheduler_.CancelReservation(at->second.id);
  bookings_.erase(at);
}

// Applies the same limits as the engine, which only reports that there is no room.
std::string ReservationBookings::WhyNoRoom(const GpuReservation& reservation, const ReservationOccurrence& turn,
                                           Time now) const {
  int others = 0;
  for (const auto& [number, other] : registry_.all()) {
    for (const ReservationOccurrence& booked : TurnsOf(other, now, turn.until)) {
      if (booked.until > turn.from && bookings_.contains(booked.id)) others += other.gpus;
    }
  }
  int unknown = 0, longer = 0;
  std::string whose;
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    if (job.gpus.empty() || job.known_end <= turn.from) continue;
    (job.known_end == kNever ? unknown : longer) += job.gpus.size();
    whose += (whose.empty() ? "" : ", ") + ToString(id);
  }
  if (const Status fits = FitsOneMachine(scheduler_, reservation.gpus); !fits) return fits.error().message;
  int usable = 0;
  for (const NodeUsage& node : scheduler_.nodes()) usable += node.taking().size();
  std::string text = "there is no room for " + Plural(reservation.gpus, "GPU") + " in that time: of " +
                     std::to_string(usable) + " that accept work";
  std::vector<std::string> parts;
  if (others > 0) parts.push_back(std::to_string(others) + " are reserved");
  if (longer > 0) parts.push_back(std::to_string(longer) + " run jobs whose time limits end after it begins");
  if (unknown > 0) parts.push_back(std::to_string(unknown) + " run jobs without a time limit");
  if (parts.empty()) parts.push_back("too few will be free");
  text += ", " + Join(parts, ", ");
  if (!whose.empty()) text += " (job " + whose + ")";
  return text;
}

void ReservationBookings::Follow(Time now) {
  if (registry_.all().empty() && bookings_.empty()) {
    next_booking_ = kNever;
    return;
  }
  if (now < next_booking_) return;
  next_booking_ = kNever;
  for (auto& setting : registry_.DropPast(now)) effects_.KeepSetting(std::move(setting));
  std::erase_if(bookings_, [&](const auto& booking) {
    if (booking.second.until > now) return false;
    scheduler_.CancelReservation(booking.second.id);
    return true;
  });
  // Occurrences in force keep their place; future ones are placed around them.
  for (const auto& [number, reservation] : registry_.all()) {
    for (const ReservationOccurrence& turn : TurnsOf(reservation, now, now + Duration(1))) {
      if (turn.from <= now && reservation.kept.turn == turn.id) BookAgain(reservation, turn, now);
    }
  }
  std::vector<GpuReservation> begun;
  for (const auto& [number, reservation] : registry_.all()) {
    for (const ReservationOccurrence& turn : TurnsOf(reservation, now, now + kBookingHorizon)) {
      const bool is_held = BookAgain(reservation, turn, now);
      if (!is_held) next_booking_ = std::min(next_booking_, now + kTryAgain);
      next_booking_ = std::min(next_booking_, turn.from > now ? turn.from : turn.until);
      if (!is_held || turn.from > now) continue;
      const std::vector<NodeResources> places = PlacesOfBooking(scheduler_, bookings_.at(turn.id).id);
      const NodeResources& place = places.front();
      const GpuReservation::Kept kept{turn.id, nodes_.NodeName(place.node), place.gpus};
      if (kept == reservation.kept) continue;
      begun.push_back(reservation);
      begun.back().kept = kept;
    }
    // When the next occurrence enters the horizon.
    if (reservation.every != Every::kOnce) next_booking_ = std::min(next_booking_, now + std::chrono::hours(1));
    if (reservation.start > now + kBookingHorizon)
      next_booking_ = std::min(next_booking_, reservation.start - kBookingHorizon);
  }
  for (const GpuReservation& reservation : begun) effects_.KeepSetting(registry_.Add(reservation));
}

void ReservationBookings::BookAnew(Time now) {
  bookings_.clear();
  next_booking_ = kNoTime;
  Follow(now);
}

std::vector<TurnView> ReservationBookings::OccurrencesAhead(const GpuReservation& reservation, Time now) const {
  std::vector<TurnView> views;
  for (const ReservationOccurrence& turn : TurnsOf(reservation, now, now + kBookingHorizon)) {
    const auto booked = bookings_.find(turn.id);
    const bool is_held = booked != bookings_.end();
    views.push_back({turn, is_held, is_held ? "" : WhyNoRoom(reservation, turn, now),
                     is_held ? PlacesOfBooking(scheduler_, booked->second.id) : std::vector<NodeResources>()});
  }
  return views;
}

std::optional<std::uint64_t> ReservationBookings::ReservationOfBooking(std::uint64_t booking) const {
  for (const auto& [turn, booked] : bookings_) {
    if (booked.id == booking) return ReservationOf(turn);
  }
  return std::nullopt;
}

}  // namespace divvy
