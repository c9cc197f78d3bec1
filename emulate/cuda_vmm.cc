// Virtual memory: address reservations, physical memory, and mappings of one to the other.
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_driver.h"

namespace divvy::cuda {
namespace {

Physical* PhysicalOf(Allocation handle) { return reinterpret_cast<Physical*>(handle); }
Allocation HandleOf(Physical* physical) { return reinterpret_cast<Allocation>(physical); }

Range* ReservationAt(Pointer pointer, size_t bytes) {
  for (Range* range : driver.ranges) {
    const auto start = reinterpret_cast<Pointer>(range->start);
    if (range->kind == kReserved && start <= pointer && pointer + bytes <= start + range->bytes) return range;
  }
  return nullptr;
}

bool Overlaps(Pointer pointer, size_t bytes) {
  for (const Range* range : driver.ranges) {
    const auto start = reinterpret_cast<Pointer>(range->start);
    if (range->kind == kMapped && start < pointer + bytes && pointer < start + range->bytes) return true;
  }
  return false;
}

bool IsDevice(const Location& location) {
  return location.type == kLocationDevice && location.id >= 0 && static_cast<unsigned>(location.id) < driver.gpu_count;
}

void* ReserveAt(void* at, size_t bytes) {
  return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at == nullptr ? 0 : MAP_FIXED), -1,
              0);
}

}  // namespace

Return cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties* properties, int) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (bytes == nullptr || properties == nullptr || properties->type != kAllocationPinned) return kInvalidValue;
  *bytes = kChunk;
  return kSuccess;
}

Return cuMemAddressReserve(Pointer* pointer, size_t bytes, size_t alignment, Pointer, unsigned long long flags) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (pointer == nullptr || bytes == 0 || bytes % kChunk != 0 || flags != 0) return kInvalidValue;
  if (alignment < kChunk) alignment = kChunk;
  void* found = ReserveAt(nullptr, bytes + alignment);
  if (found == MAP_FAILED) return kOutOfMemory;
  auto* start = static_cast<char*>(found);
  auto* aligned = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(start), alignment));
  if (aligned != start) munmap(start, static_cast<size_t>(aligned - start));
  munmap(aligned + bytes, alignment - static_cast<size_t>(aligned - start));
  auto* range = New<Range>();
  range->start = aligned;
  range->bytes = range->asked = bytes;
  range->kind = kReserved;
  range->device = -1;
  AddRange(range);
  *pointer = reinterpret_cast<Pointer>(aligned);
  return kSuccess;
}

Return cuMemAddressFree(Pointer pointer, size_t bytes) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  Range* range = ReservationAt(pointer, bytes);
  if (range == nullptr || reinterpret_cast<Pointer>(range->start) != pointer || range->bytes != bytes) {
    return kInvalidValue;
  }
  if (Overlaps(pointer, bytes)) return kInvalidValue;
  munmap(range->start, range->bytes);
  RemoveRange(range);
  return kSuccess;
}

Return cuMemCreate(Allocation* handle, size_t bytes, const AllocationProperties* properties, unsigned long long flags) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (handle == nullptr || properties == nullptr || bytes == 0 || bytes % kChunk != 0 || flags != 0) {
    return kInvalidValue;
  }
  if (properties->type != kAllocationPinned) return kInvalidValue;
  if (properties->location.type == kLocationDevice && !IsDevice(properties->location)) return kInvalidDevice;
  if (properties->location.type != kLocationDevice && properties->location.type != kLocationHost) return kInvalidValue;
  if ((properties->handle_types & ~kHandlePosixFileDescriptor) != 0) return kNotSupported;
  Return error = kSuccess;
  const Device device = properties->location.type == kLocationDevice ? properties->location.id : -1;
  Physical* physical = MakePhysical(device, bytes, properties->handle_types != 0, &error);
  if (physical == nullptr) return error;
  physical->properties = *properties;
  *handle = HandleOf(physical);
  return kSuccess;
}

Return cuMemRelease(Allocation handle) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (handle == 0) return kInvalidValue;
  Release(PhysicalOf(handle));
  return kSuccess;
}

Return cuMemMap(Pointer pointer, size_t bytes, size_t offset, Allocation handle, unsigned long long flags) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  Physical* physical = PhysicalOf(handle);
  if (physical == nullptr || bytes == 0 || bytes % kChunk != 0 || offset % kChunk != 0 || flags != 0 ||
      offset + bytes > physical->bytes || pointer % kChunk != 0) {
    return kInvalidValue;
  }
  if (ReservationAt(pointer, bytes) == nullptr || Overlaps(pointer, bytes)) return kInvalidValue;
  void* mapped = mmap(reinterpret_cast<void*>(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                      physical->fd, physical->offset + static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return kMapFailed;
  auto* range = New<Range>();
  range->start = static_cast<char*>(mapped);
  range->bytes = range->asked = bytes;
  range->kind = kMapped;
  range->physical = physical;
  range->offset = offset;
  range->device = physical->device;
  range->access = kAccessNone;
  ++physical->references;
  AddRange(range);
  return kSuccess;
}

Return cuMemUnmap(Pointer pointer, size_t bytes) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  // Only whole mappings can be unmapped.
  size_t found = 0;
  for (const Range* range : driver.ranges) {
    const auto start = reinterpret_cast<Pointer>(range->start);
    if (range->kind == kMapped && start >= pointer && start + range->bytes <= pointer + bytes) found += range->bytes;
  }
  if (found != bytes || bytes == 0) return kInvalidValue;
  for (Context context : driver.contexts) WaitForContext(context);
  for (size_t i = driver.ranges.count; i-- > 0;) {
    Range* range = driver.ranges[i];
    const auto start = reinterpret_cast<Pointer>(range->start);
    if (range->kind != kMapped || start < pointer || start + range->bytes > pointer + bytes) continue;
    ForgetRange(range);
    ReserveAt(range->start, range->bytes);
    Release(range->physical);
    free(range);
  }
  return kSuccess;
}

Return cuMemSetAccess(Pointer pointer, size_t bytes, const AccessRights* rights, size_t count) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (rights == nullptr || count == 0) return kInvalidValue;
  size_t found = 0;
  for (Range* range : driver.ranges) {
    const auto start = reinterpret_cast<Pointer>(range->start);
    if (range->kind != kMapped || start < pointer || start + range->bytes > pointer + bytes) continue;
    found += range->bytes;
    for (size_t i = 0; i < count; ++i) {
      // Access from another device is peer access, which this process always has.
      if (rights[i].location.type != kLocationDevice || rights[i].location.id == range->device ||
          rights[i].flags > range->access) {
        range->access = rights[i].flags;
      }
    }
    ProtectRange(range, false);
  }
  return found == bytes ? kSuccess : kInvalidValue;
}

Return cuMemGetAccess(unsigned long long* flags, const Location* location, Pointer pointer) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  const Range* range = RangeAt(pointer);
  if (flags == nullptr || location == nullptr || range == nullptr) return kInvalidValue;
  *flags = static_cast<unsigned long long>(range->access);
  return kSuccess;
}

Return cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties, Allocation handle) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (properties == nullptr || handle == 0) return kInvalidValue;
  *properties = PhysicalOf(handle)->properties;
  return kSuccess;
}

Return cuMemRetainAllocationHandle(Allocation* handle, void* pointer) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  const Range* range = RangeAt(reinterpret_cast<Pointer>(pointer));
  if (handle == nullptr || range == nullptr || range->kind != kMapped) return kInvalidValue;
  ++range->physical->references;
  *handle = HandleOf(range->physical);
  return kSuccess;
}

Return cuMemExportToShareableHandle(void* out, Allocation handle, int type, unsigned long long) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  Physical* physical = PhysicalOf(handle);
  if (out == nullptr || physical == nullptr || type != kHandlePosixFileDescriptor || !physical->owns_fd) {
    return kInvalidValue;
  }
  const int fd = dup(physical->fd);
  if (fd < 0) return kOperatingSystem;
  memcpy(out, &fd, sizeof(fd));
  return kSuccess;
}

// The exporter keeps counting the memory.
Return cuMemImportFromShareableHandle(Allocation* handle, void* os_handle, int type) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (handle == nullptr || type != kHandlePosixFileDescriptor) return kInvalidValue;
  const int fd = dup(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)));
  const off_t bytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
  if (bytes <= 0) {
    if (fd >= 0) close(fd);
    return kInvalidValue;
  }
  auto* physical = New<Physical>();
  physical->fd = fd;
  physical->owns_fd = true;
  physical->bytes = static_cast<size_t>(bytes);
  physical->device = call.context->device;
  physical->references = 1;
  physical->properties.type = kAllocationPinned;
  physical->properties.handle_types = kHandlePosixFileDescriptor;
  physical->properties.location = {kLocationDevice, call.context->device};
  ++driver.foreign;
  TellWhetherMovable();
  *handle = HandleOf(physical);
  return kSuccess;
}

}  // namespace divvy::cuda
