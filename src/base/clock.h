// The clock of a daemon, as an interface: the simulator and the tests have their own.
#pragma once

#include "base/time.h"

namespace divvy {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
  /// Returns an upper bound of the current time. Tokens and sessions expire by this time, so that none of them lives
  /// longer because the wall clock was set back or the machine was suspended.
  virtual Time Latest() const { return Now(); }
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
