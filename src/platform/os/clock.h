// The clocks of the machine, and the one clock of a daemon. That one reads the wall once and goes on monotonically, so
// that what it decides never sees time run backwards; a wall clock that was stepped is caught up with at the next
// start.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace divvy {

/// One of the kernel's clocks (clock_gettime(2)).
inline Duration ReadClock(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return std::chrono::duration_cast<Duration>(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}
inline Duration MonotonicNow() { return ReadClock(CLOCK_MONOTONIC); }
inline Duration BootNow() { return ReadClock(CLOCK_BOOTTIME); }  // Suspension included.
inline Time WallNow() { return Time(ReadClock(CLOCK_REALTIME)); }

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
  /// The latest time that it can be: whether a token or a session has expired is judged by it. A wall clock that was
  /// set back, or a machine that was suspended, makes neither of them live longer.
  virtual Time Latest() const { return Now(); }
};

class RealClock final : public Clock {
 public:
  RealClock()
      : wall_(std::chrono::system_clock::now().time_since_epoch()),
        steady_(std::chrono::steady_clock::now()),
        boot_(BootNow()) {}
  Time Now() const override {
    return Time(std::chrono::duration_cast<Duration>(wall_ + (std::chrono::steady_clock::now() - steady_)));
  }

  /// The larger of the wall, and of what was the latest time at the start with the time since then, suspended or not.
  Time Latest() const override {
    const Time wall(std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
    const Time begun(std::chrono::duration_cast<Duration>(wall_));
    return std::max(wall, std::max(begun, not_before_) + (BootNow() - boot_));
  }
  /// At the start: what Latest() of an earlier daemon was.
  void StartNotBefore(Time latest) { not_before_ = latest; }

 private:
  std::chrono::system_clock::duration wall_;
  std::chrono::steady_clock::time_point steady_;
  Duration boot_;
  Time not_before_ = kNoTime;
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
