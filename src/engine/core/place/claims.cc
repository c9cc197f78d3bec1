#include "engine/core/place/claims.h"

#include <algorithm>

namespace divvy::core {

const ReservationSlot* SlotOf(const Cluster::State& state, JobId entry) {
  for (const ReservationSlot& slot : state.reservations) {
    if (slot.reservation.entry == entry) return &slot;
  }
  return nullptr;
}

ReservedCapacity ClaimHold(JobId entry, const Shape& shape, const TaskPlacement& piece, Time now) {
  ReservedCapacity hold;
  hold.entry = entry;
  hold.shape = shape;
  hold.place = piece.place;
  hold.from = now;
  hold.drains = hold.is_claim = true;
  return hold;
}

void InsertSlot(Cluster::State& state, ReservationSlot slot) {
  const auto at = std::upper_bound(state.reservations.begin(), state.reservations.end(), slot,
                                   [](const ReservationSlot& a, const ReservationSlot& b) { return a.key < b.key; });
  state.reservations.insert(at, std::move(slot));
}

void Claim(Cluster::State& state, Time now, const Key& key, ClassIndex index, JobId entry,
           std::vector<TaskPlacement> place, Time start) {
  std::erase_if(state.reservations, [&](const ReservationSlot& slot) { return slot.reservation.entry == entry; });
  const JobClass& job_class = state.classes[index];
  ReservationSlot slot;
  slot.reservation = {entry, start, true, true, std::move(place)};
  slot.key = key;
  slot.job_class = index;
  slot.wants_gpu = job_class.wants_gpu;
  for (const TaskPlacement& piece : slot.reservation.pieces) {
    const Shape& shape = ShapeOf(state.asks[job_class.key.ask], piece);
    state.AddHold(piece.node, ClaimHold(entry, shape, piece, now));
  }
  InsertSlot(state, std::move(slot));
  state.take_epoch += 1;
}

LiftedHolds::LiftedHolds(Cluster::State& state, JobId entry) : state_(state) {
  const ReservationSlot* slot = SlotOf(state, entry);
  if (slot == nullptr) return;
  for (const TaskPlacement& piece : slot->reservation.pieces) {
    auto& holds = state.nodes[piece.node].holds;
    for (auto at = holds.begin(); at != holds.end();) {
      if (at->entry != entry || at->booking != 0) {
        ++at;
        continue;
      }
      lifted_.emplace_back(piece.node, std::move(*at));
      at = holds.erase(at);
    }
    Settle(piece.node);
  }
}

LiftedHolds::~LiftedHolds() {
  for (auto& [node, hold] : lifted_) state_.AddHold(node, std::move(hold));
}

void LiftedHolds::Settle(NodeIndex node) {
  if (!state_.nodes[node].holds.empty() || state_.held.erase(node) == 0) return;
  state_.Show(node);
}

}  // namespace divvy::core
