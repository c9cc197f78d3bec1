// The state that a tenant of shared GPUs and the keeper of its node share: one file that both map. A tenant is a job
// that has GPU fractions on one node. Its processes run libdivvy_cuda.so (interpose/); the keeper (the node's share
// daemon) is src/keeper.
//
// The file is used on both sides of a C ABI and by a library that needs only libc. So it uses only <cstdint>, futex(2)
// and the compiler, and has no pointers inside. It belongs to the job's user, so its content is trusted only for that
// job: the keeper checks what it reads, and never waits for a lock in it without a time limit. For the same reason the
// lock is not a pthread_mutex_t: a robust one stores pointers in its memory, which the next process that locks it
// follows.
//
// Writers: under `lock`: `ceiling` (keeper), `used` (the process of the slot), a slot's `host_pid` (keeper). Without
// it, each by one side alone: `gate` and `shown_total` (keeper), `launches`, `entered` and `flags` (the process).
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace divvy::share {

inline constexpr std::uint32_t kPageMagic = 0x44565950;  // "PYVD" in the file.
inline constexpr std::uint32_t kPageLayout = 2;          // Incremented with every change of a struct below.
inline constexpr unsigned kMaxDevices = 16;              // Per tenant.
inline constexpr unsigned kMaxProcesses = 128;           // Per tenant, at a time.
inline constexpr const char* kPageFile = "page";         // File in the folder that DIVVY_SHARE names.
inline constexpr const char* kLinkSocket = "link";       // Socket next to it: tenant_link.h.
inline constexpr const char* kFolderVariable = "DIVVY_SHARE";

/// Controls whether a launch of this tenant may go to the device. It is a futex word: a thread that finds the gate shut
/// waits for another value.
enum Gate : std::uint32_t {
  kOpen = 0,    // No other tenant needs the device: launch.
  kTurn = 1,    // The tenant has the time slice and others wait: launch, with little work in flight (kMostInFlightNs).
  kShut = 2,    // Another tenant has the time slice. Launches wait; other calls proceed.
  kParked = 3,  // Its memory is not on the device. Every call that touches the device waits, and sends kWake.
  kMoving = 4,  // Like kParked, but the memory returns without a request.
  kLost = 5,    // A move damaged its memory there. No call reaches the driver any more: each fails, indefinitely.
};
/// While a gate is kTurn, a process lets at most about this much work queue up on the device.
inline constexpr std::uint64_t kMostInFlightNs = 2'000'000;

/// Why a process cannot be moved or parked at all, or only in some way. Set once and never cleared.
enum Flag : std::uint32_t {
  kManaged = 1,          // Managed memory.
  kIpc = 2,              // Memory or events of another process, or exported to one.
  kPeers = 4,            // Peer access, or memory of several devices in one process.
  kExternal = 8,         // External memory or semaphores; exportable VMM handles.
  kCollectives = 16,     // An NCCL communicator with several ranks.
  kOwnMapping = 32,      // It maps memory itself (cuMemCreate).
  kPlainMemory = 64,     // Arrays, pools, graph memory: counted, and only the driver can save it.
  kGraphicsShared = 128  // OpenGL, Vulkan or EGL share resources with it.
};

struct PageProcess {
  std::uint32_t is_taken;    // Set by the keeper when the process sends kHello, cleared when its link closes.
  std::uint32_t generation;  // Incremented each time the slot is taken.
  std::int32_t host_pid;     // The pid in the keeper's PID namespace.
  std::uint32_t flags;
  std::uint32_t entered;            // Threads inside a driver call that the gate controls.
  std::uint32_t waiting;            // Threads that wait at a gate.
  std::uint64_t launches;           // Total number; the keeper checks whether it changes.
  std::uint64_t used[kMaxDevices];  // Bytes that it has on each device, as it counts them.
  // Further bytes according to the driver (contexts, code). Written by the keeper.
  std::uint64_t residual[kMaxDevices];
};

struct PageDevice {
  char uuid[96];              // UUID of the GPU that it is on now, "GPU-...". Written by the keeper.
  std::uint32_t gpu;          // Its index on the node.
  std::uint32_t gate;         // Gate; futex.
  std::uint64_t request;      // Bytes that are guaranteed.
  std::uint64_t limit;        // Maximum of bytes that it ever gets.
  std::uint64_t ceiling;      // Bytes that it may have now: at least what it uses, at most the limit.
  std::uint64_t shown_total;  // The device memory that it is shown; 0: all.
};

struct Page {
  std::uint32_t magic;
  std::uint32_t layout;
  std::uint32_t device_count;
  std::uint32_t is_enforced;  // 0: counts, but refuses nothing.
  std::uint32_t lock;         // The lock's owner: see LockPage.
  std::uint32_t unused;
  PageDevice devices[kMaxDevices];
  PageProcess processes[kMaxProcesses];
};

/// The owners of the lock: a process by its slot, the keeper, or a process that has no slot yet (which reserves
/// nothing).
inline constexpr std::uint32_t kLockedByKeeper = 0x7fffffff;
inline constexpr std::uint32_t LockedBySlot(std::uint32_t slot) { return slot + 1; }
inline constexpr std::uint32_t kLockHasWaiters = 0x80000000;

inline long PageFutex(std::uint32_t* word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);  // Shared: not FUTEX_PRIVATE_FLAG.
}

/// Releases the lock of the tenant's shared memory if the process `owner` holds it. The keeper (the process that
/// manages shared GPUs) does this for a process that died with the lock, or that was stopped and has held it for
/// seconds. This is safe because the lock protects single words, each valid by itself.
inline void UnlockPage(Page& page, std::uint32_t owner) {
  std::uint32_t seen = __atomic_load_n(&page.lock, __ATOMIC_RELAXED);
  while ((seen & ~kLockHasWaiters) == owner) {
    if (!__atomic_compare_exchange_n(&page.lock, &seen, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) continue;
    if ((seen & kLockHasWaiters) != 0) PageFutex(&page.lock, FUTEX_WAKE, 1, nullptr);
    return;
  }
}

/// Takes the lock of the tenant's shared memory. Returns 0, or ETIMEDOUT after about `most_ns` nanoseconds (0: does not
/// wait at all). Also excludes other threads of the same process. The library calls it with all signals blocked, so
/// that no handler requests a lock that its own thread holds.
inline int LockPage(Page& page, std::uint32_t owner, std::uint64_t most_ns = ~std::uint64_t{0}) {
  std::uint32_t free = 0;
  if (__atomic_compare_exchange_n(&page.lock, &free, owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return 0;
  // If a wake is lost because its sender died, a waiter loses this much time.
  constexpr std::uint64_t kLookNs = 100'000'000;
  while (most_ns > 0) {
    std::uint32_t seen = __atomic_load_n(&page.lock, __ATOMIC_RELAXED);
    if (seen == 0) {
      // Other threads may be waiting too. The flag is set because an unnecessary wake is better than a lost one.
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

/// Returns how many bytes of the device all processes of the tenant use. Requires: the caller holds the lock.
inline std::uint64_t UsedOf(const Page& page, unsigned device) {
  std::uint64_t used = 0;
  for (const PageProcess& process : page.processes) {
    if (process.is_taken != 0) used += process.used[device] + process.residual[device];
  }
  return used;
}

/// Reserves `bytes` of the device for a process, before the driver allocates them. `slot`: the index of the process in
/// the page. Returns false, and changes nothing, if the tenant would use more memory than it may use now (the ceiling).
/// Requires: the caller holds the lock.
inline bool Reserve(Page& page, std::uint32_t slot, unsigned device, std::uint64_t bytes) {
  const std::uint64_t used = UsedOf(page, device);
  const std::uint64_t ceiling = page.devices[device].ceiling;
  if (page.is_enforced != 0 && (used > ceiling || bytes > ceiling - used)) return false;
  page.processes[slot].used[device] += bytes;
  return true;
}

}  // namespace divvy::share
