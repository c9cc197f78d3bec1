// The gate: every call that touches a device goes through here. A launch waits while it is not this tenant's turn; all
// others wait only while the memory is away. Open and alone, it costs a look at one word.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"
#include "tenant.h"

namespace divvy::interpose {

enum class Touch { kLaunch, kOther };

/// A call to the driver, from before it is made until it has returned. One within another (a driver that calls its own
/// exported functions) passes: is_ours() tells.
class Inside {
 public:
  Inside(Touch touch, unsigned device);
  explicit Inside(Touch touch) : Inside(touch, kCurrent) {}
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  /// False: called by the driver in the course of another call, or nothing is shared; nothing is to be counted.
  bool is_ours() const { return is_ours_; }
  unsigned device() const { return device_; }
  /// After a launch that went well: counts it, and where others wait keeps what is in flight little.
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

/// The start of the driver: waits while this tenant is away from any of its GPUs, asking for it where it is parked;
/// from then on until its end the tenant does not leave, so that what the page says of its place is so.
class Settled {
 public:
  Settled();
  ~Settled();
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;

 private:
  unsigned devices_ = 0;
};

/// The device to count for, asked of the driver inside the gate; kNotOurs: not shared, or within another call.
unsigned GatedDevice();

/// True inside another call of this thread.
bool IsNested();
/// Makes it so for a scope.
class Nested {
 public:
  Nested();
  ~Nested();
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
};

/// A thread that makes calls for this library itself: none is gated or counted.
void BeOwnThread();

/// Threads that launch on the device now; with `is_any`: that make any call.
std::uint32_t InsideNow(unsigned device, bool is_any);

/// Says kAsk or kWake again to a keeper that is new, for each gate at which somebody waits.
void AskAgain();

/// In a turn that others wait for: has kYield said (orders.h) when nothing was launched for a while. Returns in how
/// many milliseconds to look again; 0: no hurry.
int LookAfterTurns();
/// Says kYield if the device has done all and nothing has been launched meanwhile; may wait long for that.
void YieldIfIdle(unsigned device);

void ForgetGates();

}  // namespace divvy::interpose
