// Checks whether a node's reserved capacity can still be served after a task is placed there: each entry at its own
// time, possibly on other GPUs.
#include <algorithm>
#include <utility>

#include "engine/core/place/placer.h"

namespace divvy::core {

// Nominations must still be served as soon as the leaving jobs have left.
bool Placer::NominationsHold(NodeIndex index, const Shape& shape, const GpuPlace& place) const {
  const Node& node = state_.nodes[index];
  if (std::none_of(node.reserved.begin(), node.reserved.end(),
                   [](const ReservedCapacity& reserved) { return reserved.is_nomination; }))
    return true;
  NodeState state = StateWithoutLeaving(state_, index);
  const auto take = [&](const Shape& one, const GpuPlace& at) {
    if (!FitsOn(state, one, at)) return false;
    placement::Take(state, one, at);
    return true;
  };
  if (const auto extra = extras_.find(index); extra != extras_.end()) {
    for (const Extra& one : extra->second) {
      if (!take(one.shape, one.place)) return false;
    }
  }
  if (!take(shape, place)) return false;
  return std::all_of(node.reserved.begin(), node.reserved.end(), [&](const ReservedCapacity& reserved) {
    return !reserved.is_nomination || take(reserved.shape, reserved.place);
  });
}

// Draining reservations have no time: free resources are kept for them up to what they need. Every other entry of the
// node's reserved capacity must still be served from its own time on, with `shape` at `place` from at_ to until_,
// possibly on other GPUs.
bool Placer::ReservedStands(NodeIndex index, const Shape& shape, const GpuPlace& place,
                            std::vector<Shift>* shifts) const {
  const Node& node = state_.nodes[index];
  if (!NominationsHold(index, shape, place)) return false;
  std::vector<const ReservedCapacity*> all_reserved;
  std::optional<NodeState> undrained;
  for (const ReservedCapacity& reserved : node.reserved) {
    if (reserved.is_nomination || IsPassed(reserved)) continue;
    if (reserved.drains) {
      if (!undrained) undrained = StateOf(index);
      Deduct(*undrained, reserved.shape, reserved.place);
      DeductHost(*undrained, reserved.shape);
    } else if (reserved.until > now_) {
      all_reserved.push_back(&reserved);
    }
  }
  if (undrained && !FitsOn(*undrained, shape, place)) return false;
  std::stable_sort(all_reserved.begin(), all_reserved.end(), [](const ReservedCapacity* a, const ReservedCapacity* b) {
    return std::pair(a->from, a->entry) < std::pair(b->from, b->entry);
  });
  std::vector<ReservedCapacity> before;
  std::vector<ReservedCapacity> placed;
  bool has_moved = false;
  for (const ReservedCapacity* reserved : all_reserved) {
    // Later entries are not affected unless an earlier one moved to their place.
    if (reserved->from >= until_ && !has_moved) break;
    const bool overlaps = reserved->from < UntilFor(*reserved) && reserved->until > at_;
    const Time from = std::max(reserved->from, now_);
    ReservedCapacity rest = Unserved(state_, node, *reserved, now_, overlaps ? std::max(from, at_) : from);
    const bool is_open = IsOpen(*reserved);
    if (is_open) rest.closed = {};
    if (overlaps && !(place.gpus & rest.closed).empty()) return false;
    if (reserved->advance != 0 && rest.shape.gpus == 0 && reserved->shape.gpus > 0) {
      before.push_back(rest);
      placed.push_back(std::move(rest));
      continue;
    }
    if (is_open) {
      rest.place.gpus -= place.gpus;
      rest.shape.gpus = static_cast<std::int16_t>(rest.place.gpus.size());
    } else if (overlaps || has_moved) {
      // The room at the entry's own time, and from when the new task is there.
      Left room = LeftAt(index, from, placed);
      if (overlaps && !room.Add(*this, index, shape, place, from)) return false;
      if (overlaps && at_ > from) {
        Left then = LeftAt(index, at_, placed);
        if (!then.Add(*this, index, shape, place, at_)) return false;
        room.Meet(then);
      }
      const std::optional<GpuPlace> served = FitsOn(room.left, rest.shape, rest.place)
                                                 ? rest.place
                                                 : ServedOn(state_, node, rest, Undrained(node, room.left));
      if (!served) {
        // If the reservation cannot be kept even without the new task, a running job takes longer than expected, or the
        // node has lost GPUs. Then the new task is not the cause.
        const bool is_lost = !ServedOn(state_, node, rest, LeftAt(index, from, before).left);
        if (!is_lost || (overlaps && placement::Overlap(place, rest.place))) return false;
        continue;
      }
      before.push_back(rest);
      if (*served != rest.place) {
        if (reserved->advance != 0 && reserved->from <= now_) return false;  // Its owners rely on these GPUs.
        if (shifts != nullptr) shifts->push_back({index, reserved->entry, reserved->advance, reserved->place, *served});
        rest.place = *served;
        has_moved = true;
      }
    }
    if (before.size() == placed.size()) before.push_back(rest);
    placed.push_back(std::move(rest));
  }
  return true;
}

Placer::Left Placer::LeftAt(NodeIndex index, Time moment, const std::vector<ReservedCapacity>& placed) const {
  Left room;
  room.left = StateAt(state_, index, now_, moment);
  for (const ReservedCapacity& reserved : placed) {
    if (reserved.from > moment || reserved.until <= moment) continue;
    if (FitsOn(room.left, reserved.shape, reserved.place)) placement::Take(room.left, reserved.shape, reserved.place);
    if (!reserved.closed.empty()) placement::Block(room.left, reserved.closed);
  }
  return room;
}

// Adds the new task, and those placed before it, if they are there at `moment`.
bool Placer::Left::Add(const Placer& placing, NodeIndex index, const Shape& shape, const GpuPlace& place, Time moment) {
  const auto take = [&](const Shape& one, const GpuPlace& at) {
    if (!FitsOn(left, one, at)) return false;
    placement::Take(left, one, at);
    return true;
  };
  if (moment < placing.at_ || moment >= placing.until_) return true;
  if (const auto extra = placing.extras_.find(index); extra != placing.extras_.end()) {
    for (const Extra& one : extra->second) {
      if (!take(one.shape, one.place)) return false;
    }
  }
  return take(shape, place);
}

void Placer::Left::Meet(const Left& other) { left = placement::Less(left, other.left); }

}  // namespace divvy::core
