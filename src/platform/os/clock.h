// The kernel's clocks, and the one clock of a daemon. The daemon's clock reads the wall clock once and then advances
// monotonically, so its decisions never see time run backwards. A change of the wall clock takes effect at the next
// start of the daemon.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace divvy {

/// Reads one of the kernel's clocks (clock_gettime(2)).
inline Duration ReadClock(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return std::chrono::duration_cast<Duration>(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}
inline Duration MonotonicNow() { return ReadClock(CLOCK_MONOTONIC); }
inline Duration BootNow() { return ReadClock(CLOCK_BOOTTIME); }  // Includes the time that the machine was suspended.
inline Time WallNow() { return Time(ReadClock(CLOCK_REALTIME)); }

class RealClock final : public Clock {
 public:
  RealClock()
      : wall_(std::chrono::system_clock::now().time_since_epoch()),
        steady_(std::chrono::steady_clock::now()),
        boot_(BootNow()) {}
  Time Now() const override {
    return Time(std::chrono::duration_cast<Duration>(wall_ + (std::chrono::steady_clock::now() - steady_)));
  }

  /// Returns the later of two times: the wall clock, and the latest time that was known at the daemon's start plus the
  /// time since then, including the time that the machine was suspended.
  Time Latest() const override {
    const Time wall(std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
    const Time begun(std::chrono::duration_cast<Duration>(wall_));
    return std::max(wall, std::max(begun, not_before_) + (BootNow() - boot_));
  }
  /// Sets a lower bound for Latest() at the daemon's start: the last value of Latest() in the previous daemon.
  void StartNotBefore(Time latest) { not_before_ = latest; }

 private:
  std::chrono::system_clock::duration wall_;
  std::chrono::steady_clock::time_point steady_;
  Duration boot_;
  Time not_before_ = kNoTime;
};

}  // namespace divvy
