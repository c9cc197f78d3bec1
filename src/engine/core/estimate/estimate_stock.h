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

  /// `all`: the amounts that become available and the times when they do, in any order; each time is known. `owed`: an
  /// amount that is taken already. It is subtracted from what becomes available first.
  explicit Stock(std::vector<Chunk> all, std::int64_t owed = 0);

  /// Returns the total of the amounts that are or become available, minus what was taken.
  std::int64_t left() const { return left_; }
  /// Returns the time from which this amount is available at the same time; kNever if it never is.
  Time From(std::int64_t amount);
  /// Takes this amount, from what becomes available first. If more becomes available at From(amount) than is needed,
  /// the rest stays available from then on. Requires: From(amount) is not kNever.
  void TakeFirst(std::int64_t amount);
  /// Takes this amount for a job that starts at `by`, from what becomes available last before that time. So what
  /// becomes available earlier stays available to other jobs. Requires: `by` is not before From(amount), which is not
  /// kNever.
  void TakeLast(std::int64_t amount, Time by);
  void GiveBack(Time at, std::int64_t amount);

  /// Returns the amount that becomes available first, and when; nullopt if there is none.
  std::optional<Chunk> First();
  /// Removes the amount that becomes available first. Requires: there is one.
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
