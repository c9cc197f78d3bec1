#include "engine/core/place/explain_ahead.h"

#include <algorithm>
#include <limits>

namespace divvy::core {
namespace {

constexpr JobId kLast = JobId(std::numeric_limits<std::uint64_t>::max());
/// Between two times, this many entries are examined one by one before the interval is halved again.
constexpr int kMostWalked = 4;

// Keys ascend along a class's queue, so the members before a key are its first ones. A binary search over the time
// since which they wait finds how many.
class Counter {
 public:
  Counter(const ClusterState& state, const Key& key, Time now) : state_(state), key_(key), now_(now) {}

  std::uint64_t Count(ClassIndex index) const {
    const ClassQueue& queue = state_.classes[index].queue;
    for (ClassQueue::Position at = queue.begin(); !queue.IsEnd(at);) {
      const Place& first = queue.At(at).place;
      if (!IsBefore(index, first)) return MembersUpTo(queue, at);
      if (!IsBefore(index, {now_, kLast, first.priority})) return Divide(index, first);
      at = queue.AfterPriority(first.priority);
    }
    return queue.members();
  }

 private:
  bool IsBefore(ClassIndex index, const Place& place) const { return state_.KeyAt(index, place, now_) < key_; }

  // Counts the members before `at`; without arrays in the queue this follows from the position.
  static std::uint64_t MembersUpTo(const ClassQueue& queue, ClassQueue::Position at) {
    if (queue.IsEnd(at)) return queue.members();
    if (queue.members() != queue.entries()) return queue.MembersBefore(queue.At(at).place);
    return (at.chunk == 0 ? 0 : queue.MembersBefore(queue.At({at.chunk, 0}).place)) + at.index;
  }

  // `first` is the first of its priority and before the key; the last of that priority is not.
  std::uint64_t Divide(ClassIndex index, const Place& first) const {
    const ClassQueue& queue = state_.classes[index].queue;
    Time before = first.since;  // A place at this time with the lowest id is before the key.
    Time behind = now_;         // A place at this time with the highest id is not.
    // The key's own time or the moment of escalation is usually the boundary.
    for (const Time guess : {state_.waiting.at(key_.id).place.since, now_ - state_.RulesOf(index).escalate_after}) {
      for (const Time at : {guess - Duration(1), guess, guess + Duration(1)}) {
        if (at <= before || at >= behind) continue;
        if (IsBefore(index, {at, kLast, first.priority})) before = at;
        else behind = at;
      }
    }
    while (true) {
      ClassQueue::Position at = queue.LowerBound({before, JobId(0), first.priority});
      for (int step = 0; step < kMostWalked; ++step, at = queue.Next(at)) {
        if (queue.IsEnd(at)) return queue.members();
        const Place& place = queue.At(at).place;
        if (place.priority != first.priority || !IsBefore(index, place)) return MembersUpTo(queue, at);
      }
      if (queue.IsEnd(at)) return queue.members();
      if (behind - before <= Duration(1)) return AmongEquals(index, queue, queue.At(at).place);
      const Time middle = before + (behind - before) / 2;
      if (IsBefore(index, {middle, kLast, first.priority})) before = middle;
      else behind = middle;
    }
  }

  // Very many jobs may wait since the same time. Then the search for the first job that is not before the key continues
  // by job id, from `place` on.
  std::uint64_t AmongEquals(ClassIndex index, const ClassQueue& queue, Place place) const {
    std::uint64_t low = place.id.value();
    std::uint64_t high = kLast.value();
    if (!IsBefore(index, place)) return queue.MembersBefore(place);
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      place.id = JobId(middle);
      (IsBefore(index, place) ? low : high) = middle;
    }
    place.id = JobId(high);
    // All members of this time are before the key; those of later times are examined one by one.
    ClassQueue::Position at = queue.LowerBound(place);
    while (!queue.IsEnd(at) && queue.At(at).place.priority == place.priority && IsBefore(index, queue.At(at).place)) {
      at = queue.Next(at);
    }
    if (queue.IsEnd(at)) return queue.members();
    return queue.MembersBefore(queue.At(at).place);
  }

  const ClusterState& state_;
  const Key& key_;
  Time now_;
};

}  // namespace

Ahead CountAhead(const ClusterState& state, const Key& key, Time now) {
  const Counter counter(state, key, now);
  // The head keys of the last decision are usually still valid, and compact in memory.
  const bool has_keys = state.stale_heads.empty() && now < state.next_change && !state.IsAnyFair();
  Ahead ahead;
  for (ClassIndex index = 0; index < state.classes.size(); ++index) {
    if (!state.queue_heads[index].is_waiting || (has_keys && !(state.keys[index] < key))) continue;
    const std::uint64_t members = counter.Count(index);
    if (members == 0) continue;
    ahead.members += members;
    ahead.gpu_parts += static_cast<std::int64_t>(members) * state.classes[index].least_parts;
    ahead.parts.push_back({index, members});
  }
  return ahead;
}

}  // namespace divvy::core
