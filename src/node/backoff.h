// Delay before an agent reconnects. It grows with each failure and is random, so that agents do not all reach a
// restarted controller at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace divvy {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(250);
  static constexpr Duration kMost = std::chrono::seconds(15);

  /// Computes the delays before an agent connects again. `seed`: different for each agent, so that agents do not all
  /// connect at the same moment.
  explicit Backoff(std::uint64_t seed) : state_(seed | 1) {}

  /// Returns the next delay, drawn at random from half of the present step to the whole step. The step then doubles, up
  /// to kMost.
  Duration Next() {
    // xorshift64*, Vigna 2016.
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const std::uint64_t draw = state_ * 2685821657736338717ull >> 33;  // 31 bits.
    const Duration half = step_ / 2;
    const Duration wait = half + Duration(half.count() / (std::int64_t{1} << 31) * static_cast<std::int64_t>(draw) +
                                          half.count() % (std::int64_t{1} << 31) * static_cast<std::int64_t>(draw) /
                                              (std::int64_t{1} << 31));
    step_ = std::min(step_ * 2, kMost);
    return wait;
  }
  /// Resets the delay after a successful connection.
  void Reset() { step_ = kFirst; }

 private:
  std::uint64_t state_;
  Duration step_ = kFirst;
};

}  // namespace divvy
