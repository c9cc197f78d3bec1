#include "engine/core/place/nominations.h"

#include <algorithm>

namespace divvy::core {

const ReservationSlot* SlotOf(const ClusterState& state, JobId entry) {
  for (const ReservationSlot& slot : state.reservations) {
    if (slot.reservation.entry == entry) return &slot;
  }
  return nullptr;
}

ReservedCapacity NominatedCapacity(JobId entry, const Shape& shape, const TaskPlacement& placed, Time now) {
  ReservedCapacity reserved;
  reserved.entry = entry;
  reserved.shape = shape;
  reserved.place = placed.place;
  reserved.from = now;
  reserved.drains = reserved.is_nomination = true;
  return reserved;
}

void InsertSlot(ClusterState& state, ReservationSlot slot) {
  const auto at = std::upper_bound(state.reservations.begin(), state.reservations.end(), slot,
                                   [](const ReservationSlot& a, const ReservationSlot& b) { return a.key < b.key; });
  state.reservations.insert(at, std::move(slot));
}

void Nominate(ClusterState& state, Time now, const Key& key, ClassIndex index, JobId entry,
              std::vector<TaskPlacement> place, Time start) {
  std::erase_if(state.reservations, [&](const ReservationSlot& slot) { return slot.reservation.entry == entry; });
  const JobClass& job_class = state.classes[index];
  ReservationSlot slot;
  slot.reservation = {entry, start, true, true, std::move(place)};
  slot.key = key;
  slot.job_class = index;
  slot.wants_gpu = job_class.wants_gpu;
  for (const TaskPlacement& placed : slot.reservation.placements) {
    const Shape& shape = ShapeOf(state.requests[job_class.key.request], placed);
    state.AddReserved(placed.node, NominatedCapacity(entry, shape, placed, now));
  }
  InsertSlot(state, std::move(slot));
  state.preempt_epoch += 1;
}

LiftedCapacity::LiftedCapacity(ClusterState& state, JobId entry) : state_(state) {
  const ReservationSlot* slot = SlotOf(state, entry);
  if (slot == nullptr) return;
  for (const TaskPlacement& placed : slot->reservation.placements) {
    auto& all_reserved = state.nodes[placed.node].reserved;
    for (auto at = all_reserved.begin(); at != all_reserved.end();) {
      if (at->entry != entry || at->advance != 0) {
        ++at;
        continue;
      }
      lifted_.emplace_back(placed.node, std::move(*at));
      at = all_reserved.erase(at);
    }
    Settle(placed.node);
  }
}

LiftedCapacity::~LiftedCapacity() {
  for (auto& [node, reserved] : lifted_) state_.AddReserved(node, std::move(reserved));
}

void LiftedCapacity::Settle(NodeIndex node) {
  if (!state_.nodes[node].reserved.empty() || state_.held.erase(node) == 0) return;
  state_.Show(node);
}

}  // namespace divvy::core
