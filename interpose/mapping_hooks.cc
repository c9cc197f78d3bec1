// Memory that a program creates and maps itself (VMM), its own or another process's. It exists, and is counted, while
// it has a handle or a mapping.
#include <stdlib.h>

#include "gate.h"
#include "hooks.h"
#include "link.h"
#include "memory.h"
#include "sync.h"
#include "table.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

struct Physical {
  std::uint64_t bytes;  // Counted bytes.
  unsigned device;
  std::uint32_t handles;  // Number of references that must be released.
  std::uint32_t mappings;
};

struct Handle {
  Physical* physical;
};

struct Mapping {
  Physical* physical;
  std::uint64_t size;
};

Mutex g_mutex;
Table<Handle> g_handles;
Table<Mapping> g_mappings;

/// Requires the mutex. Frees memory without handles and mappings.
void DropIfUnused(Physical* physical) {
  if (physical->handles != 0 || physical->mappings != 0) return;
  GiveBack(physical->device, physical->bytes);
  free(physical);
}

/// `bytes` are already counted.
void NoteHandle(cuda::Allocation handle, unsigned device, std::uint64_t bytes) {
  auto* const physical = static_cast<Physical*>(malloc(sizeof(Physical)));
  if (physical == nullptr) return;  // The bytes stay counted until the process ends.
  *physical = {bytes, device, 1, 0};
  const Locked locked(g_mutex);
  g_handles.Put(handle, {physical});
}

unsigned DeviceOfLocation(const cuda::AllocationProperties& properties) {
  return properties.location.type == cuda::kLocationDevice ? DeviceOf(properties.location.id) : kNotOurs;
}

/// The size of another process's memory is known only when it is mapped.
cuda::Return CountImport(cuda::Allocation handle, std::uint64_t size, std::uint64_t& taken, unsigned& device) {
  {
    const Locked locked(g_mutex);
    const Handle* const found = g_handles.Find(handle);
    if (found == nullptr || found->physical->bytes != 0) return cuda::kSuccess;
    device = found->physical->device;
  }
  const cuda::Return result = Take(device, size);
  if (result == cuda::kSuccess) taken = size;
  return result;
}

}  // namespace

cuda::Return cuMemCreate_hook(cuda::Allocation* handle, size_t size, const cuda::AllocationProperties* properties,
                              unsigned long long flags) {
  const auto call = [&] { return DRIVER(cuMemCreate)(handle, size, properties, flags); };
  const bool is_counted = !IsNested() && IsShared() && handle != nullptr && properties != nullptr;
  const unsigned device = is_counted ? DeviceOfLocation(*properties) : kNotOurs;
  if (device == kNotOurs) {
    const Inside inside(Touch::kOther);
    return call();
  }
  // Exportable memory stays private until it is exported: PyTorch and JAX allocate all memory this way.
  SetFlags(share::kOwnMapping);
  cuda::Return result = Take(device, size);
  if (result != cuda::kSuccess) return result;
  const Inside inside(Touch::kOther, device);
  result = call();
  if (result == cuda::kSuccess) {
    NoteHandle(*handle, device, size);
  } else {
    GiveBack(device, size);
  }
  return result;
}

cuda::Return cuMemImportFromShareableHandle_hook(cuda::Allocation* handle, void* os_handle, int type) {
  BeforePinning(share::kIpc | share::kExternal);
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuMemImportFromShareableHandle)(handle, os_handle, type);
  if (result != cuda::kSuccess || !inside.is_ours()) return result;
  SetFlags(share::kIpc | share::kExternal | share::kOwnMapping);
  cuda::AllocationProperties properties{};
  if (DRIVER(cuMemGetAllocationPropertiesFromHandle)(&properties, *handle) != cuda::kSuccess) return result;
  const unsigned device = DeviceOfLocation(properties);
  if (device != kNotOurs) NoteHandle(*handle, device, 0);
  return result;
}

cuda::Return cuMemRetainAllocationHandle_hook(cuda::Allocation* handle, void* address) {
  cuda::Pointer base = 0;
  std::uint64_t bytes = 0;
  cuda::Context context = nullptr;
  // The handle would keep the physical memory of our allocation alive on the device after it was moved to the host.
  const bool is_of_ours =
      !IsNested() && IsShared() && FindMapped(reinterpret_cast<cuda::Pointer>(address), base, bytes, context);
  if (is_of_ours) BeforePinning(share::kExternal);
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuMemRetainAllocationHandle)(handle, address);
  if (result != cuda::kSuccess || !inside.is_ours()) return result;
  if (is_of_ours) SetFlags(share::kExternal);
  const Locked locked(g_mutex);
  if (Handle* const found = g_handles.Find(*handle)) {
    ++found->physical->handles;
  } else if (Mapping* const mapping = g_mappings.Find(reinterpret_cast<std::uint64_t>(address))) {
    ++mapping->physical->handles;
    g_handles.Put(*handle, {mapping->physical});
  }
  return result;
}

cuda::Return cuMemRelease_hook(cuda::Allocation handle) {
  const Inside inside(Touch::kOther);
  if (!inside.is_ours()) return DRIVER(cuMemRelease)(handle);
  const Locked locked(g_mutex);  // Held during the call: the handle may be reused at once.
  const cuda::Return result = DRIVER(cuMemRelease)(handle);
  Handle* const found = g_handles.Find(handle);
  if (result != cuda::kSuccess || found == nullptr) return result;
  Physical* const physical = found->physical;
  if (--physical->handles == 0) g_handles.Remove(handle);
  DropIfUnused(physical);
  return result;
}

cuda::Return cuMemMap_hook(cuda::Pointer pointer, size_t size, size_t offset, cuda::Allocation handle,
                           unsigned long long flags) {
  const auto call = [&] { return DRIVER(cuMemMap)(pointer, size, offset, handle, flags); };
  if (IsNested() || !IsShared()) return call();
  std::uint64_t taken = 0;
  unsigned device = kNotOurs;
  cuda::Return result = CountImport(handle, size, taken, device);
  if (result != cuda::kSuccess) return result;
  const Inside inside(Touch::kOther);
  const Locked locked(g_mutex);
  result = call();
  Handle* const found = g_handles.Find(handle);
  const bool is_noted = result == cuda::kSuccess && found != nullptr;
  if (is_noted && g_mappings.Put(pointer, {found->physical, size})) ++found->physical->mappings;
  if (is_noted && taken != 0 && found->physical->bytes == 0) {
    found->physical->bytes = taken;
  } else {
    GiveBack(device, taken);
  }
  return result;
}

cuda::Return cuMemUnmap_hook(cuda::Pointer pointer, size_t size) {
  const Inside inside(Touch::kOther);
  if (!inside.is_ours()) return DRIVER(cuMemUnmap)(pointer, size);
  const Locked locked(g_mutex);
  const cuda::Return result = DRIVER(cuMemUnmap)(pointer, size);
  if (result != cuda::kSuccess) return result;
  for (cuda::Pointer at = pointer; at < pointer + size;) {  // The range may cover several adjacent mappings.
    Mapping* const found = g_mappings.Find(at);
    if (found == nullptr) break;
    Physical* const physical = found->physical;
    const std::uint64_t step = found->size;
    g_mappings.Remove(at);
    --physical->mappings;
    DropIfUnused(physical);
    at += step;
  }
  return result;
}

cuda::Return cuMemExportToShareableHandle_hook(void* os_handle, cuda::Allocation handle, int type,
                                               unsigned long long flags) {
  BeforePinning(share::kIpc | share::kExternal);
  if (!IsNested() && IsShared()) SetFlags(share::kIpc | share::kExternal);
  const Inside inside(Touch::kOther);
  return DRIVER(cuMemExportToShareableHandle)(os_handle, handle, type, flags);
}

cuda::Return cuMemGetHandleForAddressRange_hook(void* handle, cuda::Pointer pointer, size_t size, int type,
                                                unsigned long long flags) {
  BeforePinning(share::kExternal);
  if (!IsNested() && IsShared()) SetFlags(share::kExternal);
  const Inside inside(Touch::kOther);
  return DRIVER(cuMemGetHandleForAddressRange)(handle, pointer, size, type, flags);
}

void ForgetMappings() {
  g_mutex.Renew();
  g_handles.Abandon();
  g_mappings.Abandon();
}

}  // namespace divvy::interpose
