// The one clock of a daemon. It reads the wall once and goes on monotonically, so that what it decides never sees time
// run backwards; a wall clock that was stepped is caught up with at the next start.
#pragma once

#include <chrono>

#include "base/time.h"

namespace divvy {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class RealClock final : public Clock {
 public:
  RealClock() : wall_(std::chrono::system_clock::now().time_since_epoch()), steady_(std::chrono::steady_clock::now()) {}
  Time Now() const override {
    return Time(std::chrono::duration_cast<Duration>(wall_ + (std::chrono::steady_clock::now() - steady_)));
  }

 private:
  std::chrono::system_clock::duration wall_;
  std::chrono::steady_clock::time_point steady_;
};

class FakeClock final : public Clock {
 public:
  explicit FakeClock(Time start) : now_(start) {}
  Time Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  Time now_;
};

}  // namespace divvy
