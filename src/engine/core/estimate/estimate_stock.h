// Something that jobs take for as long as they run, and what of it comes when: GPUs of some nodes, or the room of a
// limit. Chunks of equal times are kept apart or not as it happens; only sums count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <vector>

#include "base/time.h"

namespace divvy::core {

class Stock {
 public:
  struct Chunk {
    Time at = kNever;
    std::int64_t amount = 0;
    friend bool operator>(const Chunk& a, const Chunk& b) { return a.at > b.at; }
  };

  /// In any order, each at a time that is known. `owed`: so much of it is taken already, of what comes first.
  explicit Stock(std::vector<Chunk> all, std::int64_t owed = 0);

  /// All that ever comes, less what was taken.
  std::int64_t left() const { return left_; }
  /// From when so much is there at once; kNever: it never is.
  Time From(std::int64_t amount);
  /// Requires of both: From(amount) is known. Takes what comes first: what is left of it is there from From(amount) on.
  void TakeFirst(std::int64_t amount);
  /// Requires: `by` is not before From(amount). Takes what comes last of what is there `by` then, so that others find
  /// there before what this one leaves idle until then.
  void TakeLast(std::int64_t amount, Time by);
  void GiveBack(Time at, std::int64_t amount);

  /// What comes first; nothing: there is no more.
  std::optional<Chunk> First();
  /// Requires: there is one.
  void DropFirst();

 private:
  bool Reach();  // One more chunk is there. Whether there was one.

  std::priority_queue<Chunk, std::vector<Chunk>, std::greater<>> coming_;
  std::deque<Chunk> there_;  // Ascending; what is still coming is no earlier than the last that ever was here.
  Time reached_ = kNoTime;
  std::int64_t left_ = 0;
  Time clear_ = kNoTime;  // From when nothing is owed.
};

}  // namespace divvy::core
