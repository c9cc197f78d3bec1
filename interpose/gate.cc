#include "gate.h"

#include <sched.h>

#include <atomic>

#include "contexts.h"
#include "driver.h"
#include "link.h"
#include "orders.h"
#include "sync.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr std::uint64_t kLookAgain = kSecond;  // Interval after which a thread waiting at a gate asks again.
// After this time without a keeper, launches no longer wait for a turn.
constexpr std::uint64_t kWithoutKeeper = 10 * kSecond;
constexpr std::uint64_t kIdleBeforeYield = 500'000;  // Time without launches before the turn is given away.
constexpr std::uint32_t kMostBetweenSyncs = 1024;
/// Upper bound for holding one launch in a turn. Its stream may wait for the program itself, which is blocked
/// meanwhile.
constexpr std::uint64_t kMostHeldNs = 20'000'000;

/// The state of this process on one device. It has its own cache line, since every launch updates the counters.
struct alignas(64) DeviceGate {
  std::atomic<std::uint32_t> launching{0};
  std::atomic<std::uint32_t> touching{0};
  std::atomic<std::uint32_t> waiting{0};
  std::atomic<std::uint32_t> has_asked{0};
  std::atomic<std::uint64_t> launches{0};
  // Used during a turn: launches between two waits for the device, and the last measurement.
  std::atomic<std::uint32_t> budget{1};
  std::atomic<std::uint32_t> since_sync{0};
  std::atomic<std::uint64_t> synced_at{0};
  // Used only by the link's thread.
  std::uint64_t seen_launches = 0;
  std::uint64_t seen_at = 0;
  // Used also by the thread that waits for the device.
  std::atomic<bool> has_yielded{false};
};

DeviceGate g_gates[share::kMaxDevices];
__attribute__((tls_model("initial-exec"))) thread_local unsigned t_depth = 0;

std::uint32_t GateNow(const share::Page& page, unsigned device) {
  return __atomic_load_n(&page.devices[device].gate, __ATOMIC_SEQ_CST);
}

// Calls pass a lost gate: there is no device behind it, and the caller gets an error instead of waiting.
bool MayGo(Touch touch, std::uint32_t gate) {
  return (touch == Touch::kLaunch ? gate <= share::kTurn : gate < share::kParked) || gate == share::kLost;
}

void BeLost() {
  static std::atomic<bool> is_lost{false};
  if (is_lost.exchange(true)) return;
  CutOffDriver();
  Say("its memory on the GPU was damaged while it was moved", "its CUDA calls fail from now on; start the job again");
}

void Ask(unsigned device, std::uint32_t gate) {
  if (gate != share::kShut && gate != share::kParked) return;
  if (g_gates[device].has_asked.exchange(1) != 0) return;
  Tell(gate == share::kShut ? share::Word::kAsk : share::Word::kWake, device);
}

/// Waits until the gate differs from `gate`, at most kLookAgain.
void WaitAtGate(share::Page& page, unsigned device, std::uint32_t gate) {
  if (gate < share::kShut || gate == share::kLost) return;  // It has opened meanwhile.
  DeviceGate& mine = g_gates[device];
  share::PageProcess* const words = ProcessWords();
  mine.waiting.fetch_add(1);
  __atomic_fetch_add(&words->waiting, 1, __ATOMIC_ACQ_REL);
  Ask(device, gate);
  FutexWait(&page.devices[device].gate, gate, kLookAgain);
  // The gate is still shut: another request may be sent, in case the keeper missed the first one.
  if (GateNow(page, device) == gate) mine.has_asked.store(0);
  if (words == ProcessWords() && __atomic_load_n(&words->waiting, __ATOMIC_RELAXED) != 0) {
    __atomic_fetch_sub(&words->waiting, 1, __ATOMIC_ACQ_REL);
  }
  mine.waiting.fetch_sub(1);
}

bool IsAnyLost(const share::Page& page) {
  for (unsigned device = 0; device < page.device_count; ++device) {
    if (GateNow(page, device) == share::kLost) return true;
  }
  return false;
}

/// Returns the current context's device. With several devices this is a driver call, which must wait while the process
/// is away.
unsigned AskedDevice() {
  if (HasOneDevice()) return CurrentDevice();
  for (;;) {
    share::Page* const page = SharedPage();
    if (page == nullptr) return kNotOurs;
    g_gates[0].touching.fetch_add(1, std::memory_order_seq_cst);
    unsigned away = kNotOurs;
    for (unsigned device = 0; device < page->device_count; ++device) {
      if (!MayGo(Touch::kOther, GateNow(*page, device))) away = device;
    }
    if (IsAnyLost(*page)) BeLost();
    const unsigned current = away == kNotOurs ? CurrentDevice() : kNotOurs;
    g_gates[0].touching.fetch_sub(1, std::memory_order_seq_cst);
    if (away == kNotOurs) return current;
    WaitAtGate(*page, away, GateNow(*page, away));
  }
}

bool IsCapturing(cuda::Stream stream) {
  int status = 0;
  return DRIVER(cuStreamIsCapturing)(stream, &status) == cuda::kSuccess && status != cuda::kCaptureNone;
}

/// Waits until the stream has completed its work, at most until kMostHeldNs after `started`.
void AwaitStream(cuda::Stream stream, std::uint64_t started) {
  const Uncancelled uncancelled;  // The launch is still counted as being inside.
  const RelaxedCapture relaxed;
  while (DRIVER(cuStreamQuery)(stream) == cuda::kNotReady) {
    const std::uint64_t held = NowNs() - started;
    if (held > kMostHeldNs) return;
    if (held < 50'000) {
      sched_yield();
    } else {
      const timespec pause = {0, held < kMillisecond ? 20'000 : 50'000};
      nanosleep(&pause, nullptr);
    }
  }
}

/// Waits for the stream after every `budget` launches. The budget is adapted so that about kMostInFlightNs of work is
/// in flight.
void KeepLittleInFlight(DeviceGate& mine, cuda::Stream stream) {
  if (mine.since_sync.fetch_add(1) + 1 < mine.budget.load(std::memory_order_relaxed)) return;
  if (IsCapturing(stream)) return;
  const std::uint32_t launched = mine.since_sync.exchange(0);
  if (launched == 0) return;  // Another thread waits already.
  const std::uint64_t before = mine.synced_at.load(std::memory_order_relaxed);
  AwaitStream(stream, NowNs());
  const std::uint64_t now = NowNs();
  mine.synced_at.store(now, std::memory_order_relaxed);
  const std::uint64_t took = now - before;
  std::uint32_t budget = mine.budget.load(std::memory_order_relaxed);
  if (took < share::kMostInFlightNs) {
    if (budget < kMostBetweenSyncs) budget *= 2;
  } else {
    const std::uint64_t fitting = launched * share::kMostInFlightNs / took;
    budget = fitting == 0 ? 1 : fitting < kMostBetweenSyncs ? static_cast<std::uint32_t>(fitting) : kMostBetweenSyncs;
  }
  mine.budget.store(budget, std::memory_order_relaxed);
}

}  // namespace

Inside::Inside(Touch touch, unsigned device) : touch_(touch) {
  if (t_depth != 0 || !IsShared()) {
    ++t_depth;
    return;
  }
  ++t_depth;
  is_ours_ = true;
  device_ = device == kCurrent ? AskedDevice() : device;
  if (device_ == kNotOurs) return;
  share::Page* page = SharedPage();
  if (page == nullptr) return;
  DeviceGate& mine = g_gates[device_];
  words_ = ProcessWords();
  for (;;) {
    // Counts the call as inside before it reads the gate. So a thread that closes the gate, and then waits until no
    // call is inside, misses none.
    (touch_ == Touch::kLaunch ? mine.launching : mine.touching).fetch_add(1, std::memory_order_seq_cst);
    __atomic_fetch_add(&words_->entered, 1, __ATOMIC_SEQ_CST);
    gate_ = GateNow(*page, device_);
    is_entered_ = true;
    if (__builtin_expect(MayGo(touch_, gate_), 1)) {
      if (__builtin_expect(gate_ == share::kLost, 0)) BeLost();
      break;
    }
    if (gate_ == share::kShut && LinkDownNs() > kWithoutKeeper) break;
    (touch_ == Touch::kLaunch ? mine.launching : mine.touching).fetch_sub(1, std::memory_order_seq_cst);
    __atomic_fetch_sub(&words_->entered, 1, __ATOMIC_SEQ_CST);
    is_entered_ = false;
    WaitAtGate(*page, device_, gate_);
    words_ = ProcessWords();
    page = SharedPage();  // The keeper may have replaced the page.
    if (page == nullptr) return;
  }
  if (__builtin_expect(mine.has_asked.load(std::memory_order_relaxed) != 0, 0)) mine.has_asked.store(0);
}

Inside::~Inside() {
  --t_depth;
  if (!is_entered_) return;
  DeviceGate& mine = g_gates[device_];
  // If the keeper dropped this process meanwhile, its entry was cleared and may belong to another process.
  if (words_ == ProcessWords() && __atomic_load_n(&words_->entered, __ATOMIC_RELAXED) != 0) {
    __atomic_fetch_sub(&words_->entered, 1, __ATOMIC_RELEASE);
  }
  (touch_ == Touch::kLaunch ? mine.launching : mine.touching).fetch_sub(1, std::memory_order_release);
}

void Inside::Launched(cuda::Stream stream) {
  if (!is_entered_) return;
  DeviceGate& mine = g_gates[device_];
  __atomic_fetch_add(&words_->launches, 1, __ATOMIC_RELAXED);
  mine.launches.fetch_add(1, std::memory_order_relaxed);
  if (__builtin_expect(gate_ == share::kTurn, 0)) KeepLittleInFlight(mine, stream);
}

Settled::Settled() {
  ++t_depth;
  for (;;) {
    share::Page* const page = SharedPage();
    if (page == nullptr) return;
    devices_ = page->device_count;
    unsigned away = kNotOurs;
    for (unsigned device = 0; device < devices_; ++device) {
      g_gates[device].touching.fetch_add(1, std::memory_order_seq_cst);
      if (!MayGo(Touch::kOther, GateNow(*page, device))) away = device;
    }
    if (away == kNotOurs) return;
    for (unsigned device = 0; device < devices_; ++device) g_gates[device].touching.fetch_sub(1);
    devices_ = 0;
    WaitAtGate(*page, away, GateNow(*page, away));
  }
}

Settled::~Settled() {
  --t_depth;
  for (unsigned device = 0; device < devices_; ++device) g_gates[device].touching.fetch_sub(1);
}

unsigned GatedDevice() {
  const Inside inside(Touch::kOther);
  return inside.is_ours() ? inside.device() : kNotOurs;
}

bool IsNested() { return t_depth != 0; }

Nested::Nested() { ++t_depth; }

Nested::~Nested() { --t_depth; }

void BeOwnThread() { ++t_depth; }

std::uint32_t InsideNow(unsigned device, bool is_any) {
  const DeviceGate& mine = g_gates[device];
  return mine.launching.load(std::memory_order_seq_cst) + (is_any ? mine.touching.load(std::memory_order_seq_cst) : 0);
}

void AskAgain() {
  share::Page* const page = SharedPage();
  if (page == nullptr) return;
  for (unsigned device = 0; device < page->device_count; ++device) {
    DeviceGate& mine = g_gates[device];
    mine.has_asked.store(0);
    if (mine.waiting.load() != 0) Ask(device, GateNow(*page, device));
  }
}

int LookAfterTurns() {
  share::Page* const page = SharedPage();
  if (page == nullptr || LinkDownNs() != 0) return 0;
  int look_ms = 0;
  for (unsigned device = 0; device < page->device_count; ++device) {
    DeviceGate& mine = g_gates[device];
    const std::uint32_t gate = GateNow(*page, device);
    if (gate != share::kTurn) {
      mine.has_yielded = false;
      mine.seen_at = 0;
      if (gate == share::kShut && look_ms == 0) look_ms = 5;
      continue;
    }
    look_ms = 1;
    const std::uint64_t launches = mine.launches.load(std::memory_order_relaxed);
    if (launches != mine.seen_launches || mine.seen_at == 0) {
      mine.seen_launches = launches;
      mine.seen_at = NowNs();
      mine.has_yielded = false;
      continue;
    }
    if (mine.has_yielded || NowNs() - mine.seen_at < kIdleBeforeYield) continue;
    if (InsideNow(device, false) != 0 || mine.waiting.load() != 0) continue;
    mine.has_yielded = true;
    HandYield(device);
  }
  return look_ms;
}

void YieldIfIdle(unsigned device) {
  const share::Page* const page = SharedPage();
  if (page == nullptr) return;
  DeviceGate& mine = g_gates[device];
  const std::uint64_t launches = mine.launches.load(std::memory_order_relaxed);
  const bool is_idle = SynchroniseDevice(device) != cuda::kNotReady &&
                       mine.launches.load(std::memory_order_relaxed) == launches && InsideNow(device, false) == 0 &&
                       mine.waiting.load() == 0 && GateNow(*page, device) == share::kTurn;
  if (is_idle) {
    Tell(share::Word::kYield, device);
  } else {
    mine.has_yielded = false;  // It is checked again later.
  }
}

void ForgetGates() {
  t_depth = 0;
  for (DeviceGate& mine : g_gates) {
    mine.launching.store(0);
    mine.touching.store(0);
    mine.waiting.store(0);
    mine.has_asked.store(0);
    mine.launches.store(0);
    mine.budget.store(1);
    mine.since_sync.store(0);
    mine.has_yielded = false;
  }
}

}  // namespace divvy::interpose
