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
constexpr unsigned kMostQueued = 64;  // Limit of queued orders per device; the keeper waits for each order.

enum class Task { kFromKeeper, kYield, kMeasurePools };

struct QueuedTask {
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
  QueuedTask queue[kMostQueued];
  unsigned first = 0;
  unsigned count = 0;
  QueuedTask taken{};
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

void Answer(const QueuedTask& answered, const Moved& moved, std::uint64_t started) {
  const share::Message& queued = answered.message;
  share::Message done = MessageOf(share::Word::kDone, queued.device);
  done.id = queued.id;
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

void Drain(Worker& worker, const QueuedTask& answered) {
  const share::Message& queued = answered.message;
  // Waits for launches that are in the driver now. One that takes too long is stuck, and the turn ends without it.
  AwaitNobodyInside(worker, queued.device, false);
  SynchroniseDevice(queued.device);
  share::Message drained = MessageOf(share::Word::kDrained, queued.device);
  drained.id = queued.id;
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

void Move(Worker& worker, const QueuedTask& answered) {
  const share::Message& queued = answered.message;
  const std::uint64_t started = NowNs();
  const bool is_return = queued.word == share::Word::kReturn;
  const Moved moved = Quiesced(worker, queued.device, is_return ? &Return : &Evacuate);
  if (!Claim(worker)) return;
  const bool is_away = IsAnyAway(queued.device);
  {
    const Locked locked(worker.mutex);
    worker.is_away = is_away;
  }
  Answer(answered, moved, started);
}

void Shrink(const QueuedTask& answered) {
  const share::Message& queued = answered.message;
  const std::uint64_t started = NowNs();
  Moved moved;
  const std::uint64_t before = Mine(queued.device);
  ShrinkOwn(queued.device);
  const std::uint64_t after = Mine(queued.device);
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

void CarryOut(Worker& worker, const QueuedTask& queued) {
  const unsigned device = queued.message.device;
  if (queued.task == Task::kYield) return YieldIfIdle(device);
  if (queued.task == Task::kMeasurePools) return Measure(device);
  switch (queued.message.word) {
    case share::Word::kDrain:
      return Drain(worker, queued);
    case share::Word::kEvacuate:
    case share::Word::kReturn:
      return Move(worker, queued);
    case share::Word::kShrink:
      return Shrink(queued);
    default:
      return;  // A message of a newer keeper.
  }
}

/// Executes the next order. Returns false if there was none.
bool DoNext(Worker& worker) {
  QueuedTask queued{};
  {
    const Locked locked(worker.mutex);
    if (worker.count == 0) return false;
    queued = worker.taken = worker.queue[worker.first];
    worker.first = (worker.first + 1) % kMostQueued;
    --worker.count;
    worker.stage = Stage::kWaiting;
    if (queued.task == Task::kMeasurePools) worker.is_measured = true;
  }
  CarryOut(worker, queued);
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
    if (IsMove(worker.queue[(worker.first + i) % kMostQueued].message.word)) return false;
  }
  return true;
}

/// Requires the mutex.
bool HasYield(const Worker& worker) {
  for (unsigned i = 0; i < worker.count; ++i) {
    if (worker.queue[(worker.first + i) % kMostQueued].task == Task::kYield) return true;
  }
  return false;
}

void Put(const QueuedTask& queued) {
  Worker& worker = g_workers[queued.message.device];
  bool has_thread = true;
  {
    const Locked locked(worker.mutex);
    if (worker.count == kMostQueued) return;  // The keeper never has that many orders pending.
    if (queued.task == Task::kYield && HasYield(worker)) return;
    worker.queue[(worker.first + worker.count++) % kMostQueued] = queued;
    if (!worker.has_thread) worker.has_thread = has_thread = StartOwnThread(&Run, &worker);
  }
  __atomic_fetch_add(&worker.bell, 1, __ATOMIC_RELEASE);
  FutexWakeAll(&worker.bell);
  while (!has_thread && DoNext(worker)) {
  }
}

void AnswerLate(const QueuedTask& queued) {
  Answer(queued, NotReady("the program's work on the device did not end within 10 s"), NowNs() - kTimeout);
}

/// Answers and removes moves that have waited too long.
void GiveUpLate(Worker& worker, std::uint64_t now) {
  const Locked locked(worker.mutex);
  const auto is_late = [now](const QueuedTask& queued) {
    return queued.task == Task::kFromKeeper && IsMove(queued.message.word) && now - queued.came_ns > kTimeout;
  };
  if (worker.stage == Stage::kWaiting && is_late(worker.taken)) {
    worker.stage = Stage::kGivenUp;
    AnswerLate(worker.taken);
  }
  unsigned kept = 0;
  for (unsigned i = 0; i < worker.count; ++i) {
    const QueuedTask queued = worker.queue[(worker.first + i) % kMostQueued];
    if (is_late(queued)) {
      AnswerLate(queued);
    } else {
      worker.queue[(worker.first + kept++) % kMostQueued] = queued;
    }
  }
  worker.count = kept;
}

}  // namespace

void Hand(const share::Message& message) {
  const share::Page* const page = SharedPage();
  if (page == nullptr || message.device >= page->device_count) return;
  const QueuedTask queued = {Task::kFromKeeper, message, NowNs(), LinkNumber()};
  if (message.word == share::Word::kReturn) {
    // If no memory of the device is on the host, the order to return is answered at once.
    Worker& worker = g_workers[message.device];
    bool is_here = false;
    {
      const Locked locked(worker.mutex);
      is_here = IsHere(worker);
    }
    if (is_here) return Answer(queued, {}, queued.came_ns);
  }
  Put(queued);
}

void HandYield(unsigned device) {
  share::Message message{};
  message.device = device;
  Put({Task::kYield, message, NowNs(), LinkNumber()});
}

void StartWorkers() {
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

void ForgetQueuedTasks() {
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
