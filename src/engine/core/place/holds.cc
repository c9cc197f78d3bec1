// Holds on nodes, which keep resources for reservations, and bookings, which administrators make ahead of time.
#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/place/placer.h"

namespace divvy::core {

void Cluster::State::AddHold(NodeIndex node, ReservedCapacity hold) {
  nodes[node].holds.push_back(std::move(hold));
  if (held.insert(node).second) Show(node);
}

void Cluster::State::DropHolds(NodeIndex node, JobId entry, std::uint64_t booking) {
  auto& holds = nodes[node].holds;
  const std::size_t before = holds.size();
  std::erase_if(holds, [&](const ReservedCapacity& hold) { return hold.entry == entry && hold.booking == booking; });
  if (holds.size() == before) return;
  if (holds.empty()) {
    held.erase(node);
    Show(node);
  }
  Grow(node);
}

void Cluster::State::DropPromise(std::size_t index) {
  const ReservationSlot slot = std::move(reservations[index]);
  reservations.erase(reservations.begin() + static_cast<std::ptrdiff_t>(index));
  for (const TaskPlacement& piece : slot.reservation.pieces) {
    DropHolds(piece.node, slot.reservation.entry, 0);
    Grow(piece.node);  // Also if its holds are lifted at the moment.
  }
  FreshenRights(slot.job_class);  // It reserved room in caps and teams.
  must_find_head = true;
  room_epoch += 1;
}

void Cluster::State::FreshenRights(ClassIndex index) {
  std::erase_if(team_blocked, [&](ClassIndex one) {
    const bool is_concerned = teams.ShareABound(classes[index].key.team, classes[one].key.team);
    if (is_concerned) Freshen(one);
    return is_concerned;
  });
  for (const CapIndex cap : classes[index].key.caps) {
    if (!caps[cap].is_bound()) continue;
    for (const ClassIndex one : caps[cap].classes) Freshen(one);
  }
}

void Cluster::State::DropBooking(std::size_t index) {
  const AdvanceReservation gone = std::move(bookings[index]);
  bookings.erase(bookings.begin() + static_cast<std::ptrdiff_t>(index));
  for (const TaskPlacement& piece : gone.pieces) DropHolds(piece.node, JobId(), gone.id);
  for (ReservationSlot& slot : reservations) slot.is_stale = true;
  must_find_head = true;
  room_epoch += 1;
}

void Cluster::State::TurnBookings(Time now) {
  for (std::size_t i = bookings.size(); i-- > 0;) {
    if (bookings[i].until <= now) {
      DropBooking(i);
    } else if (bookings[i].from > bookings_seen && bookings[i].from <= now) {
      for (const TaskPlacement& piece : bookings[i].pieces) Grow(piece.node);
    }
  }
  bookings_seen = now;
}

namespace {

void MarkStale(Cluster::State& state, JobId entry) {
  for (ReservationSlot& slot : state.reservations) slot.is_stale = slot.is_stale || slot.reservation.entry == entry;
}

// Moves a hold to other GPUs of its node, and updates the reservation or booking that it belongs to.
void MoveHold(Cluster::State& state, NodeIndex node, ReservedCapacity& hold, const GpuPlace& place) {
  const auto move = [&](std::vector<TaskPlacement>& pieces) {
    const auto at = std::find_if(pieces.begin(), pieces.end(), [&](const TaskPlacement& piece) {
      return piece.node == node && piece.place == hold.place;
    });
    if (at != pieces.end()) at->place = place;
  };
  for (ReservationSlot& slot : state.reservations) {
    if (hold.booking == 0 && slot.reservation.entry == hold.entry) move(slot.reservation.pieces);
  }
  for (AdvanceReservation& booking : state.bookings) {
    if (hold.booking == booking.id) move(booking.pieces);
  }
  hold.place = place;
  state.Grow(node);
}

}  // namespace

void Apply(Cluster::State& state, const std::vector<Shift>& shifts) {
  for (const Shift& shift : shifts) {
    for (ReservedCapacity& hold : state.nodes[shift.node].holds) {
      if (hold.entry != shift.entry || hold.booking != shift.booking || hold.place != shift.from) continue;
      MoveHold(state, shift.node, hold, shift.to);
      break;
    }
  }
}

void RefitHolds(Cluster::State& state, NodeIndex index, Time now) {
  Node& node = state.nodes[index];
  std::vector<ReservedCapacity*> holds;
  for (ReservedCapacity& hold : node.holds) {
    if (!hold.drains) holds.push_back(&hold);
  }
  std::stable_sort(holds.begin(), holds.end(), [](const ReservedCapacity* a, const ReservedCapacity* b) {
    return std::pair(a->from, a->entry) < std::pair(b->from, b->entry);
  });
  std::vector<ReservedCapacity> before;
  for (ReservedCapacity* hold : holds) {
    const Time moment = std::max(hold->from, now);
    ReservedCapacity rest = Unserved(state, node, *hold, now, moment);
    NodeState then = StateAt(state, index, now, moment);
    for (const ReservedCapacity& other : before) {
      if (other.until <= moment) continue;
      if (FitsOn(then, other.shape, other.place)) placement::Take(then, other.shape, other.place);
      if (!other.closed.empty()) placement::Block(then, other.closed);
    }
    if (!FitsOn(then, rest.shape, rest.place) && rest.shape.gpus > 0 && hold->from > now) {
      const std::optional<GpuPlace> place = ServedOn(state, node, rest, Undrained(node, then));
      if (!place) {
        MarkStale(state, hold->entry);
        continue;
      }
      MoveHold(state, index, *hold, *place);
      rest.place = hold->place;
    }
    before.push_back(std::move(rest));
  }
}

std::optional<AdvanceReservation> Cluster::Book(AdvanceReservation booking, Time now) {
  State& s = *state_;
  DIVVY_ASSERT(booking.id != 0 && booking.until > booking.from);
  if (booking.pieces.empty()) {
    Placer placing(s, now, std::max(booking.from, now));
    booking.pieces = placing.Find(s.asks[booking.ask], booking.until - std::max(booking.from, now), {}, true,
                                  booking.team, booking.user.value_or(0));
  }
  if (booking.pieces.empty()) return std::nullopt;
  for (const TaskPlacement& piece : booking.pieces) {
    ReservedCapacity hold;
    hold.booking = booking.id;
    hold.shape = ShapeOf(s.asks[booking.ask], piece);
    hold.place = piece.place;
    hold.from = booking.from;
    hold.until = booking.until;
    s.AddHold(piece.node, hold);
  }
  s.bookings.push_back(booking);
  for (ReservationSlot& slot : s.reservations) slot.is_stale = true;
  return booking;
}

void Cluster::Unbook(std::uint64_t id) {
  State& s = *state_;
  for (std::size_t i = 0; i < s.bookings.size(); ++i) {
    if (s.bookings[i].id != id) continue;
    s.DropBooking(i);
    return;
  }
}

}  // namespace divvy::core
