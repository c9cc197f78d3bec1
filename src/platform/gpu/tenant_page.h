// What a tenant of shared GPUs and the keeper of its node have in common: one file that both map. A tenant is a job
// that has shares of GPUs on one node; its processes run libdivvy_cuda.so (interpose/), the keeper is src/keeper.
//
// Used on both sides of a C ABI and by a library that needs libc alone: <cstdint>, futex(2) and the compiler, and no
// pointers inside. The file belongs to the job's user, so nothing in it is trusted beyond that job: the keeper checks
// what it reads, and never waits for a lock in it without a bound. That is why the lock is no pthread_mutex_t: a robust
// one keeps pointers in the memory that it lies in, and whoever locks it follows them.
//
// Who writes what. Under `lock`: `ceiling` (keeper), `used` (the process of the slot), a slot's `host_pid` (keeper).
// Without it, each by one side alone: `gate` and `shown_total` (keeper), `launches`, `entered` and `flags` (the
// process).
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace divvy::share {

inline constexpr std::uint32_t kPageMagic = 0x44565950;  // "PYVD" in the file.
inline constexpr std::uint32_t kPageLayout = 2;          // One more with every change of a struct below.
inline constexpr unsigned kMaxDevices = 16;              // Of one tenant.
inline constexpr unsigned kMaxProcesses = 128;           // Of one tenant, at a time.
inline constexpr const char* kPageFile = "page";         // In the folder that DIVVY_SHARE names.
inline constexpr const char* kLinkSocket = "link";       // Beside it: tenant_link.h.
inline constexpr const char* kFolderVariable = "DIVVY_SHARE";

/// May a launch of this tenant go to the device? A futex word: whoever finds it shut waits for another value.
enum Gate : std::uint32_t {
  kOpen = 0,    // Nobody else wants the device: go.
  kTurn = 1,    // It is its turn, and others wait: go, but with little in flight (kMostInFlightNs).
  kShut = 2,    // It is another's turn. Launches wait; all else goes.
  kParked = 3,  // Its memory is not on the device. Every call that touches the device waits, and asks for it (kWake).
  kMoving = 4,  // As kParked, but it comes back by itself.
  kLost = 5,    // A move damaged what it had there. No call reaches the driver any more: each fails, for ever.
};
/// While a gate is kTurn, a process lets no more work than about this pile up on the device.
inline constexpr std::uint64_t kMostInFlightNs = 2'000'000;

/// Why a process cannot be moved or parked (all), or only in one way. Set once, never taken back.
enum Flag : std::uint32_t {
  kManaged = 1,          // Managed memory.
  kIpc = 2,              // Memory or events of another process, or given to one.
  kPeers = 4,            // Peer access, or memory of several devices in one process.
  kExternal = 8,         // External memory or semaphores; exportable VMM handles.
  kCollectives = 16,     // A communicator of NCCL with several ranks.
  kOwnMapping = 32,      // It maps memory by itself (cuMemCreate).
  kPlainMemory = 64,     // Arrays, pools, graph memory: counted, and only the driver can save it.
  kGraphicsShared = 128  // OpenGL, Vulkan or EGL share with it.
};

struct PageProcess {
  std::uint32_t is_taken;    // Set by the keeper when the process says hello, cleared when its link closes.
  std::uint32_t generation;  // One more each time the slot is taken.
  std::int32_t host_pid;     // As the keeper sees it.
  std::uint32_t flags;
  std::uint32_t entered;                // Threads inside a driver call that the gate lets through or not.
  std::uint32_t waiting;                // Threads that wait at a gate.
  std::uint64_t launches;               // Ever; the keeper looks whether it changes.
  std::uint64_t used[kMaxDevices];      // Bytes that it has of each device, as it counts them.
  std::uint64_t residual[kMaxDevices];  // What the driver says it has beyond that (contexts, code): the keeper's.
};

struct PageDevice {
  char uuid[96];              // Of the GPU that it is on now, "GPU-..."; the keeper's.
  std::uint32_t gpu;          // Its index on the node.
  std::uint32_t gate;         // Gate; futex.
  std::uint64_t request;      // Bytes that it has a right to.
  std::uint64_t limit;        // Bytes that it never gets more than.
  std::uint64_t ceiling;      // Bytes that it may have now: never below what it uses, never above the limit.
  std::uint64_t shown_total;  // What it is told of the device's memory; 0: all.
};

struct Page {
  std::uint32_t magic;
  std::uint32_t layout;
  std::uint32_t device_count;
  std::uint32_t is_enforced;  // 0: counts, and refuses nothing.
  std::uint32_t lock;         // Who holds it: LockPage.
  std::uint32_t unused;
  PageDevice devices[kMaxDevices];
  PageProcess processes[kMaxProcesses];
};

/// Who locks: a process by its slot, the keeper, or a process that has no slot yet (which reserves nothing).
inline constexpr std::uint32_t kLockedByKeeper = 0x7fffffff;
inline constexpr std::uint32_t LockedBySlot(std::uint32_t slot) { return slot + 1; }
inline constexpr std::uint32_t kLockHasWaiters = 0x80000000;

inline long PageFutex(std::uint32_t* word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);  // Shared: not FUTEX_PRIVATE_FLAG.
}

/// Frees the lock if `owner` has it. The keeper does so for a process that has died with it (what the lock protects are
/// single words, each right by itself), or that has it for seconds, as one that was stopped there.
inline void UnlockPage(Page& page, std::uint32_t owner) {
  std::uint32_t seen = __atomic_load_n(&page.lock, __ATOMIC_RELAXED);
  while ((seen & ~kLockHasWaiters) == owner) {
    if (!__atomic_compare_exchange_n(&page.lock, &seen, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) continue;
    if ((seen & kLockHasWaiters) != 0) PageFutex(&page.lock, FUTEX_WAKE, 1, nullptr);
    return;
  }
}

/// Takes the lock. 0, or ETIMEDOUT after about `most_ns` (0: does not wait at all). Threads of one process exclude each
/// other as well. In the library: with all signals blocked, so that no handler asks for what its thread has.
inline int LockPage(Page& page, std::uint32_t owner, std::uint64_t most_ns = ~std::uint64_t{0}) {
  std::uint32_t free = 0;
  if (__atomic_compare_exchange_n(&page.lock, &free, owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return 0;
  constexpr std::uint64_t kLookNs = 100'000'000;  // A wake that was lost with its sender costs so much.
  while (most_ns > 0) {
    std::uint32_t seen = __atomic_load_n(&page.lock, __ATOMIC_RELAXED);
    if (seen == 0) {
      // Others may wait as well, and nobody knows: they are woken once too often rather than never.
      const std::uint32_t taken = owner | kLockHasWaiters;
      if (__atomic_compare_exchange_n(&page.lock, &seen, taken, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return 0;
      continue;
    }
    const std::uint32_t waited = seen | kLockHasWaiters;
    if (seen != waited &&
        !__atomic_compare_exchange_n(&page.lock, &seen, waited, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      continue;
    const std::uint64_t slice = most_ns < kLookNs ? most_ns : kLookNs;
    const timespec timeout = {0, static_cast<long>(slice)};
    const bool has_timed_out = PageFutex(&page.lock, FUTEX_WAIT, waited, &timeout) != 0 && errno == ETIMEDOUT;
    if (has_timed_out && most_ns != ~std::uint64_t{0}) most_ns -= slice;
  }
  return ETIMEDOUT;
}

/// Of all processes of the tenant. Requires: the lock.
inline std::uint64_t UsedOf(const Page& page, unsigned device) {
  std::uint64_t used = 0;
  for (const PageProcess& process : page.processes) {
    if (process.is_taken != 0) used += process.used[device] + process.residual[device];
  }
  return used;
}

/// Takes `bytes` of the device for the process in `slot`, before they are asked of the driver. False: they are above
/// the ceiling, and nothing has changed. Requires: the lock.
inline bool Reserve(Page& page, std::uint32_t slot, unsigned device, std::uint64_t bytes) {
  const std::uint64_t used = UsedOf(page, device);
  const std::uint64_t ceiling = page.devices[device].ceiling;
  if (page.is_enforced != 0 && (used > ceiling || bytes > ceiling - used)) return false;
  page.processes[slot].used[device] += bytes;
  return true;
}

}  // namespace divvy::share
