// A resource that jobs take while they run, with the times at which amounts become available: GPUs of some nodes, or
// the room of a limit. Chunks with equal times may or may not be merged; only sums matter.
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

  /// `all`: the chunks, in any order, each with a known time. `owed`: an amount that is taken already. It is subtracted
  /// from the chunks that become available first.
  explicit Stock(std::vector<Chunk> all, std::int64_t owed = 0);

  /// The total of present and future amounts, minus what was taken.
  std::int64_t left() const { return left_; }
  /// The time from which this amount is available at once; kNever: never.
  Time From(std::int64_t amount);
  /// Takes what becomes available first. The rest of those chunks is available from From(amount) on. This and TakeLast
  /// require that From(amount) is known.
  void TakeFirst(std::int64_t amount);
  /// Takes what became available last among the chunks available at `by`. So what this job leaves idle until then stays
  /// available to others. Requires: `by` is not before From(amount).
  void TakeLast(std::int64_t amount, Time by);
  void GiveBack(Time at, std::int64_t amount);

  /// The earliest chunk; nothing if there is none.
  std::optional<Chunk> First();
  /// Removes the earliest chunk. Requires: there is one.
  void DropFirst();

 private:
  bool Reach();  // Makes one more chunk available. Returns whether there was one.

  std::priority_queue<Chunk, std::vector<Chunk>, std::greater<>> coming_;
  std::deque<Chunk> there_;  // In ascending order; every chunk in coming_ is at least as late as the latest that was
                             // ever here.
  Time reached_ = kNoTime;
  std::int64_t left_ = 0;
  Time clear_ = kNoTime;  // From then on nothing is owed.
};

}  // namespace divvy::core
