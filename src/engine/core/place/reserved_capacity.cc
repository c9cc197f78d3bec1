// The capacity of nodes that is reserved for backfill reservations and nominations, and the advance reservations that
// administrators make ahead of time.
#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/state.h"

namespace divvy::core {

void ClusterState::AddReserved(NodeIndex node, ReservedCapacity reserved) {
  nodes[node].reserved.push_back(std::move(reserved));
  if (held.insert(node).second) Show(node);
}

void ClusterState::DropReserved(NodeIndex node, JobId entry, std::uint64_t advance) {
  auto& all_reserved = nodes[node].reserved;
  const std::size_t before = all_reserved.size();
  std::erase_if(all_reserved, [&](const ReservedCapacity& reserved) {
    return reserved.entry == entry && reserved.advance == advance;
  });
  if (all_reserved.size() == before) return;
  if (all_reserved.empty()) {
    held.erase(node);
    Show(node);
  }
  Grow(node);
}

void ClusterState::DropReservation(std::size_t index) {
  const ReservationSlot slot = std::move(reservations[index]);
  reservations.erase(reservations.begin() + static_cast<std::ptrdiff_t>(index));
  for (const TaskPlacement& placed : slot.reservation.placements) {
    DropReserved(placed.node, slot.reservation.entry, 0);
    Grow(placed.node);  // Also if its reserved capacity is lifted at the moment.
  }
  FreshenRights(slot.job_class);  // It reserved room in caps and teams.
  must_find_head = true;
  room_epoch += 1;
}

void ClusterState::FreshenRights(ClassIndex index) {
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

void ClusterState::DropAdvanceReservation(std::size_t index) {
  const AdvanceReservation gone = std::move(advance_reservations[index]);
  advance_reservations.erase(advance_reservations.begin() + static_cast<std::ptrdiff_t>(index));
  for (const TaskPlacement& placed : gone.placements) DropReserved(placed.node, JobId(), gone.id);
  for (ReservationSlot& slot : reservations) slot.is_stale = true;
  must_find_head = true;
  room_epoch += 1;
}

void ClusterState::UpdateAdvanceReservations(Time now) {
  for (std::size_t i = advance_reservations.size(); i-- > 0;) {
    if (advance_reservations[i].until <= now) {
      DropAdvanceReservation(i);
    } else if (advance_reservations[i].from > advance_seen && advance_reservations[i].from <= now) {
      for (const TaskPlacement& placed : advance_reservations[i].placements) Grow(placed.node);
    }
  }
  advance_seen = now;
}

namespace {

void MarkStale(ClusterState& state, JobId entry) {
  for (ReservationSlot& slot : state.reservations) slot.is_stale = slot.is_stale || slot.reservation.entry == entry;
}

// Moves reserved capacity to other GPUs of its node, and updates the backfill or advance reservation that it belongs
// to.
void MoveReserved(ClusterState& state, NodeIndex node, ReservedCapacity& reserved, const GpuPlace& place) {
  const auto move = [&](std::vector<TaskPlacement>& placements) {
    const auto at = std::find_if(placements.begin(), placements.end(), [&](const TaskPlacement& placed) {
      return placed.node == node && placed.place == reserved.place;
    });
    if (at != placements.end()) at->place = place;
  };
  for (ReservationSlot& slot : state.reservations) {
    if (reserved.advance == 0 && slot.reservation.entry == reserved.entry) move(slot.reservation.placements);
  }
  for (AdvanceReservation& advance : state.advance_reservations) {
    if (reserved.advance == advance.id) move(advance.placements);
  }
  reserved.place = place;
  state.Grow(node);
}

}  // namespace

void Apply(ClusterState& state, const std::vector<Shift>& shifts) {
  for (const Shift& shift : shifts) {
    for (ReservedCapacity& reserved : state.nodes[shift.node].reserved) {
      if (reserved.entry != shift.entry || reserved.advance != shift.advance || reserved.place != shift.from) continue;
      MoveReserved(state, shift.node, reserved, shift.to);
      break;
    }
  }
}

void RefitReserved(ClusterState& state, NodeIndex index, Time now) {
  Node& node = state.nodes[index];
  std::vector<ReservedCapacity*> all_reserved;
  for (ReservedCapacity& reserved : node.reserved) {
    if (!reserved.drains) all_reserved.push_back(&reserved);
  }
  std::stable_sort(all_reserved.begin(), all_reserved.end(), [](const ReservedCapacity* a, const ReservedCapacity* b) {
    return std::pair(a->from, a->entry) < std::pair(b->from, b->entry);
  });
  std::vector<ReservedCapacity> before;
  for (ReservedCapacity* reserved : all_reserved) {
    const Time moment = std::max(reserved->from, now);
    ReservedCapacity rest = Unserved(state, node, *reserved, now, moment);
    NodeState then = StateAt(state, index, now, moment);
    for (const ReservedCapacity& other : before) {
      if (other.until <= moment) continue;
      if (FitsOn(then, other.shape, other.place)) placement::Take(then, other.shape, other.place);
      if (!other.closed.empty()) placement::Block(then, other.closed);
    }
    if (!FitsOn(then, rest.shape, rest.place) && rest.shape.gpus > 0 && reserved->from > now) {
      const std::optional<GpuPlace> place = ServedOn(state, node, rest, Undrained(node, then));
      if (!place) {
        MarkStale(state, reserved->entry);
        continue;
      }
      MoveReserved(state, index, *reserved, *place);
      rest.place = reserved->place;
    }
    before.push_back(std::move(rest));
  }
}

}  // namespace divvy::core
