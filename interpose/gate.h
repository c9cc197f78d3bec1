// The gate: every call that touches a device passes through it. A launch waits until it is this tenant's turn. Other
// calls wait only while the memory is off the device. With an open gate and no neighbour the cost is one memory read.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"
#include "tenant.h"

namespace divvy::interpose {

enum class Touch { kLaunch, kOther };

/// Spans a call to the driver, from before the call until it has returned. A nested call (the driver calls its own
/// exported functions) passes without checks; see is_ours().
class Inside {
 public:
  Inside(Touch touch, unsigned device);
  explicit Inside(Touch touch) : Inside(touch, kCurrent) {}
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  /// Returns false for a nested call by the driver, or if nothing is shared; then nothing must be counted.
  bool is_ours() const { return is_ours_; }
  unsigned device() const { return device_; }
  /// Call this after a successful launch: counts it, and limits the work in flight if other tenants wait.
  void Launched(cuda::Stream stream);

  static constexpr unsigned kCurrent = ~0U - 1;  // The current context's device.

 private:
  Touch touch_;
  unsigned device_ = kNotOurs;
  bool is_ours_ = false;
  bool is_entered_ = false;
  std::uint32_t gate_ = 0;
  share::PageProcess* words_ = nullptr;
};

/// Spans the driver's start-up. Waits until the tenant is on all its GPUs, and requests a wake if it is parked. The
/// tenant does not leave before the end of the scope, so the placement in the page stays valid.
class Settled {
 public:
  Settled();
  ~Settled();
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;

 private:
  unsigned devices_ = 0;
};

/// Returns the device to charge, queried from the driver inside the gate. Returns kNotOurs if it is not shared, or
/// within another call.
unsigned GatedDevice();

/// Returns true inside another call of this thread.
bool IsNested();
/// Makes IsNested() true for a scope.
class Nested {
 public:
  Nested();
  ~Nested();
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
};

/// Marks this thread as the library's own: its calls are neither gated nor counted.
void BeOwnThread();

/// Returns the number of threads that are launching on the device now; with `is_any`, that make any call.
std::uint32_t InsideNow(unsigned device, bool is_any);

/// Repeats kAsk or kWake to a new keeper, for each gate with waiting threads.
void AskAgain();

/// During a contested turn, schedules kYield (orders.h) if nothing was launched for a while. Returns the milliseconds
/// until the next check; 0: not urgent.
int LookAfterTurns();
/// Sends kYield if the device has completed all work and nothing was launched meanwhile. May wait long for the device.
void YieldIfIdle(unsigned device);

void ForgetGates();

}  // namespace divvy::interpose
