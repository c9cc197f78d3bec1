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

  /// Returns true if the program itself made this driver call and its GPUs are shared. If false, because the driver
  /// calls its own functions or nothing is shared, the call must not be counted.
  bool is_ours() const { return is_ours_; }
  unsigned device() const { return device_; }
  /// Call this after a successful kernel launch. Counts it and, if other tenants wait for the GPU, waits until not too
  /// much submitted work is unfinished.
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

/// Returns the tenant's number of the current device, to which memory is charged. Returns kNotOurs if that device is
/// not shared, or if the driver itself makes this call.
unsigned GatedDevice();

/// Returns true if this thread is within another driver call already, so that the driver or this library makes the
/// call.
bool IsNested();
/// Makes IsNested() true for a scope.
class Nested {
 public:
  Nested();
  ~Nested();
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
};

/// Marks this thread as one of this library's own: its driver calls neither wait for the tenant's turn nor count.
void BeOwnThread();

/// Returns how many threads of this process are in a driver call for this device now: launches only, or all calls with
/// `is_any`.
std::uint32_t InsideNow(unsigned device, bool is_any);

/// After a keeper has restarted, repeats the message to it that threads of this process wait for the GPU (kAsk) or for
/// the tenant to wake (kWake).
void AskAgain();

/// While other tenants wait for the GPU and this process has launched nothing for a while, schedules YieldIfIdle, which
/// gives up its turn. Returns the milliseconds until the next check; 0: no check is urgent.
int LookAfterTurns();
/// Tells the keeper that this process gives up its turn on the device (kYield), if the device has completed all its
/// work and it launched nothing meanwhile. May wait long for the device.
void YieldIfIdle(unsigned device);

void ForgetGates();

}  // namespace divvy::interpose
