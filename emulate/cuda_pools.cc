// Stream-ordered memory and its pools. Freed memory stays in the pool, and counts, until a synchronisation finds the
// pool above its threshold.
#include "cuda_driver.h"

namespace divvy::cuda {
namespace {

bool IsDevice(Device device) { return device >= 0 && static_cast<unsigned>(device) < driver.gpu_count; }

Pool NewPool(Device device, bool is_default) {
  auto* pool = New<OpaquePool>();
  pool->device = device;
  pool->is_default = is_default;
  driver.pools.Add(pool);
  return pool;
}

void Trim(Pool pool, size_t keep) {
  while (pool->reserved > keep && pool->idle.count != 0) {
    Range* range = pool->idle[pool->idle.count - 1];
    pool->idle.RemoveAt(pool->idle.count - 1);
    pool->reserved -= range->bytes;
    RemoveRange(range);
  }
}

// Takes an idle piece that is large enough but not much too large.
Range* TakeIdle(Pool pool, size_t bytes) {
  for (size_t i = 0; i < pool->idle.count; ++i) {
    Range* range = pool->idle[i];
    if (range->bytes < bytes || range->bytes > 2 * bytes + kChunk) continue;
    pool->idle.RemoveAt(i);
    return range;
  }
  return nullptr;
}

Return Allocate(Pointer* pointer, size_t bytes, Pool pool, Stream handle) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  if (call.Resolve(handle)->capture != nullptr) return kStreamCaptureUnsupported;
  if (pool == nullptr) pool = PoolOf(call.context->device);
  if (pool->max != 0 && pool->used + bytes > pool->max) return kOutOfMemory;
  Range* range = TakeIdle(pool, bytes);
  if (range == nullptr) {
    Return error = kSuccess;
    OpaqueContext owner = *call.context;
    owner.device = pool->device;
    range = AllocateRange(kPooled, &owner, bytes, &error);
    if (range == nullptr && error == kOutOfMemory && pool->idle.count != 0) {
      Trim(pool, 0);
      range = AllocateRange(kPooled, &owner, bytes, &error);
    }
    if (range == nullptr) return error;
    range->context = call.context;
    range->pool = pool;
    pool->reserved += range->bytes;
    if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
  }
  range->asked = bytes;
  range->is_used = true;
  pool->used += range->bytes;
  if (pool->used > pool->used_high) pool->used_high = pool->used;
  *pointer = reinterpret_cast<Pointer>(range->start);
  return kSuccess;
}

}  // namespace

Pool PoolOf(Device device) {
  if (driver.default_pool[device] == nullptr) driver.default_pool[device] = NewPool(device, true);
  if (driver.current_pool[device] == nullptr) driver.current_pool[device] = driver.default_pool[device];
  return driver.current_pool[device];
}

void ReturnToPool(Range* range) {
  if (!range->is_used) return;
  range->is_used = false;
  if (range->kind == kOfGraph) return;  // Stays with the graphs; see cuDeviceGraphMemTrim.
  range->pool->used -= range->bytes;
  range->pool->idle.Add(range);
}

void TrimPools(Device device) {
  for (Pool pool : driver.pools) {
    if (pool->device == device) Trim(pool, pool->threshold);
  }
}

Return cuMemAllocAsync(Pointer* pointer, size_t bytes, Stream stream) {
  return Allocate(pointer, bytes, nullptr, stream);
}
Return cuMemAllocFromPoolAsync(Pointer* pointer, size_t bytes, Pool pool, Stream stream) {
  return pool == nullptr ? kInvalidValue : Allocate(pointer, bytes, pool, stream);
}

Return cuMemFreeAsync(Pointer pointer, Stream handle) {
  Call call;
  if (call.error != kSuccess) return call.error;
  const Range* range = RangeFrom(pointer);
  if (range == nullptr || (range->kind != kPooled && range->kind != kPlain && range->kind != kOfGraph)) {
    return kInvalidValue;
  }
  Command* command = NewCommand(kFreePooled);
  command->target = pointer;
  return Submit(call.Resolve(handle), command);
}

Return cuMemPoolCreate(Pool* pool, const PoolProperties* properties) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (pool == nullptr || properties == nullptr || properties->type != kAllocationPinned) return kInvalidValue;
  if (properties->location.type != kLocationDevice || !IsDevice(properties->location.id)) return kInvalidDevice;
  if (properties->handle_types != 0) return kNotSupported;
  *pool = NewPool(properties->location.id, false);
  (*pool)->max = properties->max_size;
  return kSuccess;
}

// Allocations from the pool outlive it.
Return cuMemPoolDestroy(Pool pool) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (pool == nullptr || pool->is_default) return kInvalidValue;
  Trim(pool, 0);
  pool->threshold = 0;
  if (driver.current_pool[pool->device] == pool) driver.current_pool[pool->device] = driver.default_pool[pool->device];
  return kSuccess;
}

Return cuMemPoolTrimTo(Pool pool, size_t keep) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (pool == nullptr) return kInvalidValue;
  Trim(pool, keep);
  return kSuccess;
}

Return cuMemPoolSetAttribute(Pool pool, int attribute, void* value) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (pool == nullptr || value == nullptr) return kInvalidValue;
  switch (attribute) {
    case kPoolReuseFollowEvents:
    case kPoolReuseOpportunistic:
    case kPoolReuseInternal:
      return kSuccess;
    case kPoolReleaseThreshold:
      memcpy(&pool->threshold, value, sizeof(pool->threshold));
      return kSuccess;
    case kPoolReservedHigh:
      pool->reserved_high = pool->reserved;
      return kSuccess;
    case kPoolUsedHigh:
      pool->used_high = pool->used;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

Return cuMemPoolGetAttribute(Pool pool, int attribute, void* value) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (pool == nullptr || value == nullptr) return kInvalidValue;
  const uint64_t counts[] = {pool->threshold, pool->reserved, pool->reserved_high, pool->used, pool->used_high};
  if (attribute >= kPoolReleaseThreshold && attribute <= kPoolUsedHigh) {
    memcpy(value, &counts[attribute - kPoolReleaseThreshold], sizeof(uint64_t));
    return kSuccess;
  }
  if (attribute < kPoolReuseFollowEvents || attribute > kPoolUsedHigh) return kInvalidValue;
  const int is_on = 1;
  memcpy(value, &is_on, sizeof(is_on));
  return kSuccess;
}

Return cuMemPoolSetAccess(Pool pool, const AccessRights* rights, size_t count) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  return pool == nullptr || (rights == nullptr && count != 0) ? kInvalidValue : kSuccess;
}

Return cuMemPoolGetAccess(int* flags, Pool pool, Location* location) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (flags == nullptr || pool == nullptr || location == nullptr) return kInvalidValue;
  *flags = kAccessReadWrite;
  return kSuccess;
}

Return cuDeviceGetDefaultMemPool(Pool* pool, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (pool == nullptr) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  PoolOf(device);
  *pool = driver.default_pool[device];
  return kSuccess;
}

Return cuDeviceGetMemPool(Pool* pool, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (pool == nullptr) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  *pool = PoolOf(device);
  return kSuccess;
}

Return cuDeviceSetMemPool(Device device, Pool pool) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!IsDevice(device)) return kInvalidDevice;
  if (pool == nullptr || pool->device != device) return kInvalidValue;
  PoolOf(device);
  driver.current_pool[device] = pool;
  return kSuccess;
}

}  // namespace divvy::cuda
