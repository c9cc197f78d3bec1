#include "orders.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "contexts.h"
#include "gate.h"
#include "link.h"
#include "memory.h"
#include "pools.h"
#include "sync.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

/// Calls that are inside end when the device has done what they wait for. What takes longer waits for something else,
/// which a shut gate may be in the way of.
constexpr std::uint64_t kCallPatience = 10 * kSecond;

bool AwaitNobodyInside(unsigned device, bool is_any) {
  const std::uint64_t started = NowNs();
  for (unsigned round = 0; InsideNow(device, is_any) != 0; ++round) {
    if (NowNs() - started > kCallPatience) return false;
    if (round < 1000) {
      sched_yield();
    } else {
      const timespec pause = {0, 200'000};
      nanosleep(&pause, nullptr);
    }
  }
  return true;
}

void Answer(const share::Message& order, const Moved& moved, std::uint64_t started) {
  share::Message done = MessageOf(share::Word::kDone, order.device);
  done.id = order.id;
  done.result = moved.result;
  done.bytes = moved.bytes;
  done.nanoseconds = NowNs() - started;
  if (moved.result == cuda::kSuccess && moved.unpinned != 0) {
    snprintf(done.text, sizeof done.text, "%llu bytes went through host memory that is not pinned",
             static_cast<unsigned long long>(moved.unpinned));
  } else {
    snprintf(done.text, sizeof done.text, "%s", moved.text);
  }
  Send(done);
}

void Drain(const share::Message& order) {
  // A launch that stays inside for so long is on its way to nothing: the turn is over all the same.
  AwaitNobodyInside(order.device, false);
  SynchroniseDevice(order.device);
  share::Message drained = MessageOf(share::Word::kDrained, order.device);
  drained.id = order.id;
  Send(drained);
}

Moved Quiesced(unsigned device, Moved (*move)(unsigned)) {
  Moved failed;
  const std::uint32_t gate = __atomic_load_n(&SharedPage()->devices[device].gate, __ATOMIC_ACQUIRE);
  if (gate < share::kParked) {
    failed.result = cuda::kNotReady;
    failed.text = "the gate is not kMoving or kParked";
    return failed;
  }
  if (!AwaitNobodyInside(device, true)) {
    failed.result = cuda::kNotReady;
    failed.text = "a call to the driver did not come back within 10 s";
    return failed;
  }
  const cuda::Return result = SynchroniseDevice(device);
  if (result != cuda::kSuccess) {
    failed.result = result;
    failed.text =
        result == cuda::kNotReady ? "the program captures a graph" : "the program's work on the device failed";
    return failed;
  }
  return move(device);
}

Moved Shrink(unsigned device) {
  Moved moved;
  const std::uint64_t before = Mine(device);
  ShrinkOwn(device);
  const std::uint64_t after = Mine(device);
  moved.bytes = before > after ? before - after : 0;
  return moved;
}

}  // namespace

void CarryOut(const share::Message& order) {
  const share::Page* const page = SharedPage();
  if (page == nullptr || order.device >= page->device_count) return;
  const std::uint64_t started = NowNs();
  switch (order.word) {
    case share::Word::kDrain:
      return Drain(order);
    case share::Word::kEvacuate:
      return Answer(order, Quiesced(order.device, &Evacuate), started);
    case share::Word::kReturn:
      return Answer(order, Quiesced(order.device, &Return), started);
    case share::Word::kShrink:
      return Answer(order, Shrink(order.device), started);
    default:
      return;  // A word that a newer keeper has.
  }
}

void LookAround() {
  static std::uint64_t looked_at = 0;
  const std::uint64_t now = NowNs();
  if (now - looked_at < kSecond) return;
  looked_at = now;
  const share::Page* const page = SharedPage();
  if (page == nullptr) return;
  for (unsigned device = 0; device < page->device_count; ++device) {
    if (LinkDownNs() == 0 && HasPools(device) &&
        __atomic_load_n(&page->devices[device].gate, __ATOMIC_ACQUIRE) < share::kParked) {
      MeasurePools(device);
    }
  }
}

}  // namespace divvy::interpose
