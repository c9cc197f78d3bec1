#include "engine/core/explain_ahead.h"

#include <algorithm>
#include <limits>

namespace divvy::core {
namespace {

// Keys grow along a line, so those before a key are its first ones: found by halving the time since when they wait.
class Counter {
 public:
  Counter(const Cluster::State& state, const Key& key, Time now) : state_(state), key_(key), now_(now) {}

  std::uint64_t Count(ClassIndex index) const {
    const Line& line = state_.classes[index].line;
    std::uint64_t count = 0;
    for (Line::Position at = line.begin(); !line.IsEnd(at);) {
      const Place& first = line.At(at).place;
      if (!IsBefore(index, first)) break;
      const Line::Position next = line.AfterPriority(first.priority);
      const std::uint64_t all = line.IsEnd(next) ? line.members() : line.MembersBefore(line.At(next).place);
      const std::uint64_t within = OfPriority(index, first, all);
      count = within;
      if (within < all) break;
      at = next;
    }
    return count;
  }

 private:
  bool IsBefore(ClassIndex index, const Place& place) const {
    return KeyOf(state_.rules, state_.teams, state_.StandingOf(index, place), now_) < key_;
  }

  // Of all members up to the end of this priority, how many are before the key. `first` is.
  std::uint64_t OfPriority(ClassIndex index, const Place& first, std::uint64_t all) const {
    const Line& line = state_.classes[index].line;
    static constexpr JobId kLast = JobId(std::numeric_limits<std::uint64_t>::max());
    if (IsBefore(index, {now_, kLast, first.priority})) return all;
    Time before = first.since;  // Who waits since then, with the lowest id, is before the key;
    Time behind = now_;         // with the highest id, is not.
    // Mostly it is the key's own time or the moment of escalation that divides.
    for (const Time guess : {state_.waiting.at(key_.id).place.since, now_ - state_.rules.escalate_after}) {
      if (guess <= before || guess >= behind) continue;
      if (IsBefore(index, {guess, kLast, first.priority})) before = guess;
      else behind = guess;
      const Time next = guess + Duration(1);
      if (guess != before || next >= behind) continue;
      if (IsBefore(index, {next, kLast, first.priority})) before = next;
      else behind = next;
    }
    while (behind - before > Duration(1) && HasBetween(line, before, behind, first.priority)) {
      const Time middle = before + (behind - before) / 2;
      if (IsBefore(index, {middle, kLast, first.priority})) before = middle;
      else behind = middle;
    }
    return line.MembersBefore(Divide(index, line, before, behind, first.priority));
  }

  static bool HasBetween(const Line& line, Time before, Time behind, int priority) {
    const Line::Position at = line.LowerBound({before + Duration(1), JobId(0), priority});
    return !line.IsEnd(at) && line.At(at).place < Place{behind, JobId(0), priority};
  }

  // The few that wait since exactly one of two times differ by their ids.
  Place Divide(ClassIndex index, const Line& line, Time before, Time behind, int priority) const {
    for (const Time since : {before, behind}) {
      std::uint64_t low = 0;
      std::uint64_t high = std::numeric_limits<std::uint64_t>::max();
      const Line::Position at = line.LowerBound({since, JobId(0), priority});
      const bool is_anybody =
          !line.IsEnd(at) && line.At(at).place.since == since && line.At(at).place.priority == priority;
      if (!is_anybody || IsBefore(index, {since, JobId(high), priority})) continue;
      if (!IsBefore(index, {since, JobId(0), priority})) return {since, JobId(0), priority};
      while (high - low > 1) {
        const std::uint64_t middle = low + (high - low) / 2;
        if (IsBefore(index, {since, JobId(middle), priority})) low = middle;
        else high = middle;
      }
      return {since, JobId(high), priority};
    }
    return {behind, JobId(std::numeric_limits<std::uint64_t>::max()), priority};
  }

  const Cluster::State& state_;
  const Key& key_;
  Time now_;
};

}  // namespace

Ahead CountAhead(const Cluster::State& state, const Key& key, Time now) {
  const Counter counter(state, key, now);
  Ahead ahead;
  for (ClassIndex index = 0; index < state.classes.size(); ++index) {
    if (!state.fronts[index].is_waiting) continue;
    const std::uint64_t members = counter.Count(index);
    if (members == 0) continue;
    ahead.members += members;
    ahead.milli += static_cast<std::int64_t>(members) * state.classes[index].least_milli;
    ahead.parts.push_back({index, members});
  }
  return ahead;
}

}  // namespace divvy::core
