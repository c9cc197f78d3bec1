#include "pools.h"

#include "driver.h"
#include "gate.h"
#include "sync.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr int kMostPools = 256;  // Further pools of a process are not measured, only counted at allocation.

struct PoolRecord {
  cuda::Pool pool;
  unsigned device;
  std::uint64_t counted;  // In bytes.
};

struct GraphMemory {
  std::uint64_t promised;
  std::uint64_t counted;
};

Mutex g_mutex;  // Held while the driver allocates from a pool, so that each growth is counted once.
PoolRecord g_pools[kMostPools];
int g_count = 0;
GraphMemory g_graphs[share::kMaxDevices];

/// Requires the mutex. Returns null if there are too many pools.
PoolRecord* Find(unsigned device, cuda::Pool pool) {
  for (int i = 0; i < g_count; ++i) {
    if (g_pools[i].pool == pool) return &g_pools[i];
  }
  if (g_count == kMostPools) return nullptr;
  g_pools[g_count] = {pool, device, 0};
  return &g_pools[g_count++];
}

/// Returns false if the driver does not report it.
bool Reserved(cuda::Pool pool, std::uint64_t& bytes) {
  unsigned long long reserved = 0;
  if (DRIVER(cuMemPoolGetAttribute)(pool, cuda::kPoolReservedNow, &reserved) != cuda::kSuccess) return false;
  bytes = reserved;
  return true;
}

/// Returns the pool's reserved bytes that are not allocated.
std::uint64_t FreeIn(cuda::Pool pool) {
  unsigned long long used = 0;
  std::uint64_t reserved = 0;
  if (!Reserved(pool, reserved)) return 0;
  if (DRIVER(cuMemPoolGetAttribute)(pool, cuda::kPoolUsedNow, &used) != cuda::kSuccess) return 0;
  return reserved > used ? reserved - used : 0;
}

/// Counts the pool's present reservation. Requires the mutex.
void Measure(PoolRecord& record) {
  std::uint64_t reserved = 0;
  if (!Reserved(record.pool, reserved)) return;
  if (reserved < record.counted) GiveBack(record.device, record.counted - reserved);
  if (reserved > record.counted) TakeRegardless(record.device, reserved - record.counted);
  record.counted = reserved;
}

}  // namespace

cuda::Pool PoolOf(cuda::Device ordinal) {
  cuda::Pool pool = nullptr;
  return DRIVER(cuDeviceGetMemPool)(&pool, ordinal) == cuda::kSuccess ? pool : nullptr;
}

cuda::Return AllocateFromPool(unsigned device, cuda::Pool pool, std::uint64_t bytes, cuda::Return (*call)(void*),
                              cuda::Return (*undo)(void*), void* argument) {
  SetFlags(share::kPlainMemory);
  // The pool may have enough free memory for the allocation, so that it need not grow.
  std::uint64_t taken = bytes;
  {
    const Inside inside(Touch::kOther, device);
    if (FreeIn(pool) >= bytes) taken = 0;
  }
  if (taken != 0) {
    const cuda::Return result = Take(device, taken);
    if (result != cuda::kSuccess) return result;
  }
  const Inside inside(Touch::kOther, device);
  const Locked locked(g_mutex);
  cuda::Return result = call(argument);
  PoolRecord* const record = Find(device, pool);
  std::uint64_t reserved = 0;
  if (record == nullptr || !Reserved(pool, reserved)) {
    if (result != cuda::kSuccess) GiveBack(device, taken);
    return result;
  }
  const std::uint64_t grown = reserved > record->counted ? reserved - record->counted : 0;
  if (grown > taken && result == cuda::kSuccess && !TakeAtOnce(device, grown - taken)) {
    // The pool grew more than requested, and the ceiling does not allow that.
    result = undo(argument) == cuda::kSuccess ? cuda::kOutOfMemory : cuda::kSuccess;
    record->counted += taken;
    DRIVER(cuMemPoolTrimTo)(pool, 0);
    Measure(*record);
    return result;
  }
  record->counted += grown > taken ? grown : taken;
  Measure(*record);
  return result;
}

unsigned DeviceOfPool(cuda::Pool pool, unsigned otherwise) {
  {
    const Locked locked(g_mutex);
    for (int i = 0; i < g_count; ++i) {
      if (g_pools[i].pool == pool) return g_pools[i].device;
    }
  }
  if (HasOneDevice()) return otherwise;
  for (unsigned device = 0; device < share::kMaxDevices; ++device) {
    const cuda::Device ordinal = OrdinalOf(device);
    cuda::Pool its = nullptr;
    if (ordinal < 0) continue;
    if (PoolOf(ordinal) == pool) return device;
    if (DRIVER(cuDeviceGetDefaultMemPool)(&its, ordinal) == cuda::kSuccess && its == pool) return device;
  }
  return otherwise;
}

bool HasPools(unsigned device) {
  const Locked locked(g_mutex);
  for (int i = 0; i < g_count; ++i) {
    if (g_pools[i].device == device) return true;
  }
  return false;
}

bool MayHavePools() { return __atomic_load_n(&g_count, __ATOMIC_RELAXED) != 0; }

void NotePool(unsigned device, cuda::Pool pool) {
  const Locked locked(g_mutex);
  PoolRecord* const record = Find(device, pool);
  if (record != nullptr && record->device != kNotOurs) Measure(*record);
}

void ForgetPool(cuda::Pool pool) {
  const Locked locked(g_mutex);
  for (int i = 0; i < g_count; ++i) {
    if (g_pools[i].pool != pool) continue;
    GiveBack(g_pools[i].device, g_pools[i].counted);
    g_pools[i--] = g_pools[--g_count];
  }
}

void MeasurePools(unsigned device) {
  const Locked locked(g_mutex);
  for (int i = 0; i < g_count; ++i) {
    if (g_pools[i].device == device) Measure(g_pools[i]);
  }
}

void MeasureAllPools() {
  const Locked locked(g_mutex);
  for (int i = 0; i < g_count; ++i) {
    if (g_pools[i].device != kNotOurs) Measure(g_pools[i]);
  }
}

void TrimPools(unsigned device) {
  const Inside inside(Touch::kOther, device);
  {
    const Locked locked(g_mutex);
    for (int i = 0; i < g_count; ++i) {
      if (g_pools[i].device != device) continue;
      DRIVER(cuMemPoolTrimTo)(g_pools[i].pool, 0);
      Measure(g_pools[i]);
    }
    if (g_graphs[device].counted == 0 && g_graphs[device].promised == 0) return;
  }
  DRIVER(cuDeviceGraphMemTrim)(OrdinalOf(device));
  MeasureGraphMemory(device);
}

cuda::Return PromiseGraphMemory(unsigned device, std::uint64_t bytes) {
  if (bytes == 0 || device >= share::kMaxDevices) return cuda::kSuccess;
  SetFlags(share::kPlainMemory);
  // Counted in full, although the graphs' present memory may suffice: two graphs may run at the same time.
  const cuda::Return result = Take(device, bytes);
  if (result != cuda::kSuccess) return result;
  const Locked locked(g_mutex);
  g_graphs[device].promised += bytes;
  g_graphs[device].counted += bytes;
  return cuda::kSuccess;
}

void EndGraphPromise(unsigned device, std::uint64_t bytes) {
  if (bytes == 0 || device >= share::kMaxDevices) return;
  {
    const Locked locked(g_mutex);
    g_graphs[device].promised -= bytes < g_graphs[device].promised ? bytes : g_graphs[device].promised;
  }
  DRIVER(cuDeviceGraphMemTrim)(OrdinalOf(device));
  MeasureGraphMemory(device);
}

void MeasureGraphMemory(unsigned device) {
  if (device >= share::kMaxDevices) return;
  const Locked locked(g_mutex);
  GraphMemory& graphs = g_graphs[device];
  if (graphs.promised == 0 && graphs.counted == 0) return;
  unsigned long long reserved = 0;
  DRIVER(cuDeviceGetGraphMemAttribute)(OrdinalOf(device), cuda::kGraphReservedNow, &reserved);
  const std::uint64_t now = reserved > graphs.promised ? reserved : graphs.promised;
  if (now < graphs.counted) GiveBack(device, graphs.counted - now);
  if (now > graphs.counted) TakeRegardless(device, now - graphs.counted);
  graphs.counted = now;
}

void MeasureAllGraphMemory() {
  for (unsigned device = 0; device < share::kMaxDevices; ++device) {
    if (HasGraphMemory(device)) MeasureGraphMemory(device);
  }
}

bool HasGraphMemory(unsigned device) {
  // Reads without the lock, since every graph launch comes here. The value is set before the graph can be launched.
  return device < share::kMaxDevices && __atomic_load_n(&g_graphs[device].counted, __ATOMIC_RELAXED) != 0;
}

void ForgetPools() {
  g_mutex.Renew();
  g_count = 0;
  for (GraphMemory& graphs : g_graphs) graphs = {0, 0};
}

}  // namespace divvy::interpose
