#include "orders.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <atomic>

#include "contexts.h"
#include "gate.h"
#include "link.h"
#include "memory.h"
#include "pools.h"
#include "sync.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

/// Timeout for calls inside the gate. They return when the device has completed the work they wait for. A longer call
/// waits for something else, possibly behind a shut gate. The keeper's own timeout is longer.
constexpr std::uint64_t kTimeout = 10 * kSecond;
constexpr unsigned kMostOrders = 64;  // Limit of queued orders per device; the keeper waits for each order.

enum class Task { kFromKeeper, kYield, kMeasurePools };

struct Order {
  Task task;
  share::Message message;
  std::uint64_t came_ns;
  std::uint64_t link;  // The connection on which it arrived.
};

/// Progress of the order that the thread is executing.
enum class Stage { kNone, kWaiting, kMoving, kGivenUp };

/// A device's thread and its queue. Guarded by the mutex, except for the bell.
struct Worker {
  Mutex mutex;
  Order orders[kMostOrders];
  unsigned first = 0;
  unsigned count = 0;
  Order taken{};
  Stage stage = Stage::kNone;
  bool is_away = false;     // Some memory may be on the host.
  bool is_measured = true;  // No task to measure the pools is queued.
  bool has_thread = false;
  std::uint32_t bell = 0;  // Futex word.
};
Worker g_workers[share::kMaxDevices];

bool IsMove(share::Word word) { return word == share::Word::kEvacuate || word == share::Word::kReturn; }

/// Returns true if the move may proceed. Returns false if the order was already answered as too late, or if its keeper
/// is gone; the next keeper sends its own orders.
bool Claim(Worker& worker) {
  const Locked locked(worker.mutex);
  if (worker.stage == Stage::kMoving) return true;
  if (worker.stage == Stage::kGivenUp || worker.taken.link != LinkNumber()) return false;
  worker.stage = Stage::kMoving;
  return true;
}

bool IsGivenUp(Worker& worker) {
  const Locked locked(worker.mutex);
  return worker.stage == Stage::kGivenUp;
}

bool AwaitNobodyInside(Worker& worker, unsigned device, bool is_any) {
  const std::uint64_t started = NowNs();
  for (unsigned round = 0; InsideNow(device, is_any) != 0; ++round) {
    if (NowNs() - started > kTimeout) return false;
    if (round < 1000) {
      sched_yield();
    } else {
      if (IsGivenUp(worker)) return false;
      const timespec pause = {0, 200'000};
      nanosleep(&pause, nullptr);
    }
  }
  return true;
}

void Answer(const Order& answered, const Moved& moved, std::uint64_t started) {
  const share::Message& order = answered.message;
  share::Message done = MessageOf(share::Word::kDone, order.device);
  done.id = order.id;
  done.result = moved.result;
  done.bytes = moved.bytes;
  done.nanoseconds = NowNs() - started;
  if (moved.result == cuda::kSuccess && moved.unpinned != 0) {
    snprintf(done.text, sizeof done.text, "%llu bytes were copied through host memory that is not pinned",
             static_cast<unsigned long long>(moved.unpinned));
  } else {
    snprintf(done.text, sizeof done.text, "%s", moved.text);
  }
  SendOn(answered.link, done);
}

Moved NotReady(const char* text) {
  Moved failed;
  failed.result = cuda::kNotReady;
  failed.text = text;
  return failed;
}

void Drain(Worker& worker, const Order& answered) {
  const share::Message& order = answered.message;
  // If a launch stays inside for so long, it is stuck; the turn ends anyway.
  AwaitNobodyInside(worker, order.device, false);
  SynchroniseDevice(order.device);
  share::Message drained = MessageOf(share::Word::kDrained, order.device);
  drained.id = order.id;
  SendOn(answered.link, drained);
}

/// Waits until the device has completed all work, then moves.
Moved Quiesced(Worker& worker, unsigned device, Moved (*move)(unsigned)) {
  const share::Page* const page = SharedPage();
  if (page == nullptr) return NotReady("the process shares nothing any more");
  const std::uint32_t gate = __atomic_load_n(&page->devices[device].gate, __ATOMIC_ACQUIRE);
  if (gate < share::kParked) return NotReady("the gate is not kMoving or kParked");
  if (!AwaitNobodyInside(worker, device, true)) return NotReady("a call to the driver did not come back within 10 s");
  const cuda::Return result = SynchroniseDevice(device);
  if (result != cuda::kSuccess) {
    Moved failed;
    failed.result = result;
    failed.text =
        result == cuda::kNotReady ? "the program is capturing a CUDA graph" : "the program's work on the device failed";
    return failed;
  }
  if (!Claim(worker)) return {};
  return move(device);
}

void Move(Worker& worker, const Order& answered) {
  const share::Message& order = answered.message;
  const std::uint64_t started = NowNs();
  const bool is_return = order.word == share::Word::kReturn;
  const Moved moved = Quiesced(worker, order.device, is_return ? &Return : &Evacuate);
  if (!Claim(worker)) return;
  const bool is_away = IsAnyAway(order.device);
  {
    const Locked locked(worker.mutex);
    worker.is_away = is_away;
  }
  Answer(answered, moved, started);
}

void Shrink(const Order& answered) {
  const share::Message& order = answered.message;
  const std::uint64_t started = NowNs();
  Moved moved;
  const std::uint64_t before = Mine(order.device);
  ShrinkOwn(order.device);
  const std::uint64_t after = Mine(order.device);
  moved.bytes = before > after ? before - after : 0;
  Answer(answered, moved, started);
}

void Measure(unsigned device) {
  const share::Page* const page = SharedPage();
  if (page != nullptr && LinkDownNs() == 0 &&
      __atomic_load_n(&page->devices[device].gate, __ATOMIC_ACQUIRE) < share::kParked) {
    MeasurePools(device);
  }
}

void CarryOut(Worker& worker, const Order& order) {
  const unsigned device = order.message.device;
  if (order.task == Task::kYield) return YieldIfIdle(device);
  if (order.task == Task::kMeasurePools) return Measure(device);
  switch (order.message.word) {
    case share::Word::kDrain:
      return Drain(worker, order);
    case share::Word::kEvacuate:
    case share::Word::kReturn:
      return Move(worker, order);
    case share::Word::kShrink:
      return Shrink(order);
    default:
      return;  // A message of a newer keeper.
  }
}

/// Executes the next order. Returns false if there was none.
bool DoNext(Worker& worker) {
  Order order{};
  {
    const Locked locked(worker.mutex);
    if (worker.count == 0) return false;
    order = worker.taken = worker.orders[worker.first];
    worker.first = (worker.first + 1) % kMostOrders;
    --worker.count;
    worker.stage = Stage::kWaiting;
    if (order.task == Task::kMeasurePools) worker.is_measured = true;
  }
  CarryOut(worker, order);
  const Locked locked(worker.mutex);
  worker.stage = Stage::kNone;
  return true;
}

void* Run(void* argument) {
  BeOwnThread();
  Worker& worker = *static_cast<Worker*>(argument);
  for (;;) {
    const std::uint32_t bell = __atomic_load_n(&worker.bell, __ATOMIC_ACQUIRE);
    if (!DoNext(worker)) FutexWait(&worker.bell, bell, 60 * kSecond);
  }
}

/// Returns true if no memory of the device is on the host and no pending order will move it there. Requires the mutex.
bool IsHere(const Worker& worker) {
  if (worker.is_away || worker.stage == Stage::kMoving) return false;
  if (worker.stage == Stage::kWaiting && IsMove(worker.taken.message.word)) return false;
  for (unsigned i = 0; i < worker.count; ++i) {
    if (IsMove(worker.orders[(worker.first + i) % kMostOrders].message.word)) return false;
  }
  return true;
}

/// Requires the mutex.
bool HasYield(const Worker& worker) {
  for (unsigned i = 0; i < worker.count; ++i) {
    if (worker.orders[(worker.first + i) % kMostOrders].task == Task::kYield) return true;
  }
  return false;
}

void Put(const Order& order) {
  Worker& worker = g_workers[order.message.device];
  bool has_thread = true;
  {
    const Locked locked(worker.mutex);
    if (worker.count == kMostOrders) return;  // The keeper never has that many orders pending.
    if (order.task == Task::kYield && HasYield(worker)) return;
    worker.orders[(worker.first + worker.count++) % kMostOrders] = order;
    if (!worker.has_thread) worker.has_thread = has_thread = StartOwnThread(&Run, &worker);
  }
  __atomic_fetch_add(&worker.bell, 1, __ATOMIC_RELEASE);
  FutexWakeAll(&worker.bell);
  while (!has_thread && DoNext(worker)) {
  }
}

void AnswerLate(const Order& order) {
  Answer(order, NotReady("the program's work on the device did not end within 10 s"), NowNs() - kTimeout);
}

/// Answers and removes moves that have waited too long.
void GiveUpLate(Worker& worker, std::uint64_t now) {
  const Locked locked(worker.mutex);
  const auto is_late = [now](const Order& order) {
    return order.task == Task::kFromKeeper && IsMove(order.message.word) && now - order.came_ns > kTimeout;
  };
  if (worker.stage == Stage::kWaiting && is_late(worker.taken)) {
    worker.stage = Stage::kGivenUp;
    AnswerLate(worker.taken);
  }
  unsigned kept = 0;
  for (unsigned i = 0; i < worker.count; ++i) {
    const Order order = worker.orders[(worker.first + i) % kMostOrders];
    if (is_late(order)) {
      AnswerLate(order);
    } else {
      worker.orders[(worker.first + kept++) % kMostOrders] = order;
    }
  }
  worker.count = kept;
}

}  // namespace

void Hand(const share::Message& message) {
  const share::Page* const page = SharedPage();
  if (page == nullptr || message.device >= page->device_count) return;
  const Order order = {Task::kFromKeeper, message, NowNs(), LinkNumber()};
  if (message.word == share::Word::kReturn) {
    // There is nothing to restore, so it does not need to wait.
    Worker& worker = g_workers[message.device];
    bool is_here = false;
    {
      const Locked locked(worker.mutex);
      is_here = IsHere(worker);
    }
    if (is_here) return Answer(order, {}, order.came_ns);
  }
  Put(order);
}

void HandYield(unsigned device) {
  share::Message message{};
  message.device = device;
  Put({Task::kYield, message, NowNs(), LinkNumber()});
}

void LookAfterOrders() {
  static std::uint64_t looked_at = 0;
  const share::Page* const page = SharedPage();
  if (page == nullptr) return;
  const std::uint64_t now = NowNs();
  const bool is_time = now - looked_at >= kSecond;
  if (is_time) looked_at = now;
  for (unsigned device = 0; device < page->device_count; ++device) {
    Worker& worker = g_workers[device];
    GiveUpLate(worker, now);
    if (!is_time || !MayHavePools()) continue;
    {
      const Locked locked(worker.mutex);
      if (!worker.is_measured) continue;
      worker.is_measured = false;
    }
    share::Message message{};
    message.device = device;
    Put({Task::kMeasurePools, message, now, LinkNumber()});
  }
}

void ForgetOrders() {
  for (Worker& worker : g_workers) {
    worker.mutex.Renew();
    worker.first = worker.count = 0;
    worker.stage = Stage::kNone;
    worker.is_away = false;
    worker.is_measured = true;
    worker.has_thread = false;
    worker.bell = 0;
  }
}

}  // namespace divvy::interpose
