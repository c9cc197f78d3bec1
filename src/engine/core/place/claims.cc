#include "engine/core/place/claims.h"

#include <algorithm>

namespace divvy::core {

const PromiseSlot* SlotOf(const Cluster::State& state, JobId entry) {
  for (const PromiseSlot& slot : state.promises) {
    if (slot.promise.entry == entry) return &slot;
  }
  return nullptr;
}

Hold ClaimHold(JobId entry, const Shape& shape, const Piece& piece, Time now) {
  Hold hold;
  hold.entry = entry;
  hold.shape = shape;
  hold.place = piece.place;
  hold.from = now;
  hold.drains = hold.is_claim = true;
  return hold;
}

void InsertSlot(Cluster::State& state, PromiseSlot slot) {
  const auto at = std::upper_bound(state.promises.begin(), state.promises.end(), slot,
                                   [](const PromiseSlot& a, const PromiseSlot& b) { return a.key < b.key; });
  state.promises.insert(at, std::move(slot));
}

void Claim(Cluster::State& state, Time now, const Key& key, ClassIndex index, JobId entry, std::vector<Piece> place,
           Time start) {
  std::erase_if(state.promises, [&](const PromiseSlot& slot) { return slot.promise.entry == entry; });
  const JobClass& job_class = state.classes[index];
  PromiseSlot slot;
  slot.promise = {entry, start, true, true, std::move(place)};
  slot.key = key;
  slot.job_class = index;
  slot.wants_gpu = job_class.wants_gpu;
  for (const Piece& piece : slot.promise.pieces) {
    const Shape& shape = ShapeOf(state.asks[job_class.key.ask], piece);
    state.AddHold(piece.node, ClaimHold(entry, shape, piece, now));
  }
  InsertSlot(state, std::move(slot));
  state.take_epoch += 1;
}

LiftedHolds::LiftedHolds(Cluster::State& state, JobId entry) : state_(state) {
  const PromiseSlot* slot = SlotOf(state, entry);
  if (slot == nullptr) return;
  for (const Piece& piece : slot->promise.pieces) {
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
