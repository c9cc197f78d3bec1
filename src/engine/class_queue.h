// The queue of one job class: equivalent jobs in the order in which they start. An entry is a job or an array; its
// members are the jobs of it that wait: 1, or the array's waiting elements. A two-level array of sorted chunks: 24
// bytes per entry, appends and removals near the front in O(log n), and counting the members before an entry does not
// walk the whole queue.
//
// Order: priority (higher first), then the time since which the job waits, then id. Invariants: places are unique and
// ascending, no chunk is empty, a chunk's `members` is the sum of its counts.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "model/job.h"

namespace divvy {

/// The position of an entry. `since` is the submission time, or the begin time if that is later.
struct Place {
  Time since = kNoTime;
  JobId id;
  int priority = 0;

  friend bool operator==(const Place&, const Place&) = default;
  friend std::strong_ordering operator<=>(const Place& a, const Place& b) {
    if (auto order = b.priority <=> a.priority; order != 0) return order;
    if (auto order = a.since <=> b.since; order != 0) return order;
    return a.id <=> b.id;
  }
};

class ClassQueue {
 public:
  struct Stand {
    Place place;
    std::uint32_t count = 1;  // The entry's members: waiting jobs.
  };
  /// Refers to a Stand; valid until the queue changes.
  struct Position {
    std::size_t chunk = 0;
    std::size_t index = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };

  /// Adds a waiting job, or an array with `count` waiting elements, at its place in the queue. Requires: there is no
  /// entry at `place` yet.
  void Insert(const Place& place, std::uint32_t count);
  /// Removes the job or array at `place`. Requires: there is one.
  void Erase(const Place& place);
  void SetCount(const Place& place, std::uint32_t count);

  bool empty() const { return chunks_.empty(); }
  std::size_t entries() const { return entries_; }
  /// The number of waiting jobs in all entries.
  std::uint64_t members() const { return members_; }

  Position begin() const { return {}; }
  bool IsEnd(Position at) const { return at.chunk >= chunks_.size(); }
  const Stand& At(Position at) const { return chunks_[at.chunk].stands[at.index]; }
  Position Next(Position at) const;
  /// Returns the position of the first entry at or after `place`.
  Position LowerBound(const Place& place) const;
  /// Returns the position of the first entry with a lower priority than `priority`.
  Position AfterPriority(int priority) const;
  /// The number of waiting jobs in the entries before `place`. An array counts with all its waiting elements.
  std::uint64_t MembersBefore(const Place& place) const;

 private:
  struct Chunk {
    std::vector<Stand> stands;
    std::uint64_t members = 0;
  };

  std::size_t ChunkOf(const Place& place) const;

  std::vector<Chunk> chunks_;
  std::size_t entries_ = 0;
  std::uint64_t members_ = 0;
};

}  // namespace divvy
