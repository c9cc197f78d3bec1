// Plain device memory, managed memory, host memory, and pointer attributes.
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_driver.h"

namespace divvy::cuda {

Return cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (free_bytes == nullptr || total == nullptr) return kInvalidValue;
  ReadMemory(call.context->device, *free_bytes, *total);
  return kSuccess;
}

Return cuMemAlloc_v2(Pointer* pointer, size_t bytes) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  Return error = kSuccess;
  const Range* range = AllocateRange(kPlain, call.context, bytes, &error);
  if (range != nullptr) *pointer = reinterpret_cast<Pointer>(range->start);
  return error;
}

Return cuMemAllocPitch_v2(Pointer* pointer, size_t* pitch, size_t width, size_t height, unsigned element) {
  if (pointer == nullptr || pitch == nullptr || width == 0 || height == 0) return kInvalidValue;
  if (element != 4 && element != 8 && element != 16) return kInvalidValue;
  *pitch = RoundUp(width, 512);
  return cuMemAlloc_v2(pointer, *pitch * height);
}

Return cuMemAllocManaged(Pointer* pointer, size_t bytes, unsigned flags) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (pointer == nullptr || bytes == 0 || (flags != 1 && flags != 2)) return kInvalidValue;
  Return error = kSuccess;
  const Range* range = AllocateRange(kManagedRange, call.context, bytes, &error);
  if (range == nullptr) return error;
  ++driver.managed;
  TellWhetherMovable();
  *pointer = reinterpret_cast<Pointer>(range->start);
  return kSuccess;
}

Return cuMemFree_v2(Pointer pointer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (pointer == 0) return kSuccess;
  Range* range = RangeFrom(pointer);
  if (range == nullptr) return kInvalidValue;
  if (range->kind != kPlain && range->kind != kManagedRange && range->kind != kPooled && range->kind != kOfGraph) {
    return kInvalidValue;
  }
  WaitForContext(call.context);  // Earlier commands may still use it.
  if (RangeFrom(pointer) != range) return kInvalidValue;
  if (range->kind == kPooled || range->kind == kOfGraph) {
    ReturnToPool(range);
    return kSuccess;
  }
  if (range->kind == kManagedRange) {
    --driver.managed;
    TellWhetherMovable();
  }
  RemoveRange(range);
  return kSuccess;
}

Return cuMemGetAddressRange_v2(Pointer* start, size_t* bytes, Pointer pointer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  const Range* range = RangeAt(pointer);
  if (range == nullptr || range->kind == kReserved) return kNotFound;
  if (start != nullptr) *start = reinterpret_cast<Pointer>(range->start);
  if (bytes != nullptr) *bytes = range->asked;
  return kSuccess;
}

Return cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  Return error = kSuccess;
  Physical* physical = MakePhysical(-1, bytes, false, &error);
  if (physical == nullptr) return error;
  Range* range = MapRange(kPinned, physical, nullptr, bytes, call.context);
  if (range == nullptr) {
    Release(physical);
    return kOutOfMemory;
  }
  range->flags = flags;
  *pointer = range->start;
  return kSuccess;
}

Return cuMemAllocHost_v2(void** pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

Return cuMemFreeHost(void* pointer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  Range* range = RangeFrom(reinterpret_cast<Pointer>(pointer));
  if (range == nullptr || range->kind != kPinned) return kInvalidValue;
  WaitForContext(call.context);
  RemoveRange(range);
  return kSuccess;
}

Return cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (pointer == nullptr || bytes == 0) return kInvalidValue;
  if (RangeAt(reinterpret_cast<Pointer>(pointer)) != nullptr) return kHostMemoryAlreadyRegistered;
  auto* range = New<Range>();
  range->start = static_cast<char*>(pointer);
  range->bytes = range->asked = bytes;
  range->kind = kRegistered;
  range->context = call.context;
  range->device = -1;
  range->flags = flags;
  range->access = kAccessReadWrite;
  AddRange(range);
  return kSuccess;
}
Return cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return cuMemHostRegister_v2(pointer, bytes, flags);
}

Return cuMemHostUnregister(void* pointer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  Range* range = RangeFrom(reinterpret_cast<Pointer>(pointer));
  if (range == nullptr || range->kind != kRegistered) return kHostMemoryNotRegistered;
  RemoveRange(range);
  return kSuccess;
}

Return cuMemHostGetDevicePointer_v2(Pointer* device, void* pointer, unsigned) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (device == nullptr || RangeAt(reinterpret_cast<Pointer>(pointer)) == nullptr) return kInvalidValue;
  *device = reinterpret_cast<Pointer>(pointer);
  return kSuccess;
}

Return cuMemHostGetFlags(unsigned* flags, void* pointer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  const Range* range = RangeAt(reinterpret_cast<Pointer>(pointer));
  if (flags == nullptr || range == nullptr || range->kind != kPinned) return kInvalidValue;
  *flags = range->flags;
  return kSuccess;
}

namespace {

template <typename T>
Return Give(void* out, T value) {
  memcpy(out, &value, sizeof(value));
  return kSuccess;
}

Return GiveAttribute(void* out, int attribute, const Range& range, Pointer pointer) {
  const bool is_host = range.device < 0;
  switch (attribute) {
    case kPointerContext:
      return Give(out, range.context);
    case kPointerMemoryType:
      return Give(out, static_cast<unsigned>(is_host ? kMemoryHost : kMemoryDevice));
    case kPointerDevicePointer:
      return Give(out, pointer);
    case kPointerHostPointer:
      if (!is_host && range.kind != kManagedRange) return kInvalidValue;
      return Give(out, pointer);
    case kPointerSyncMemops:
      return Give(out, 0);
    case kPointerBufferId:
      return Give(out, range.id);
    case kPointerIsManaged:
      return Give(out, static_cast<unsigned>(range.kind == kManagedRange));
    case kPointerDeviceOrdinal:
      return Give(out, is_host ? range.context->device : range.device);
    case kPointerIsLegacyIpcCapable:
      return Give(out, static_cast<unsigned>(range.kind == kPlain));
    case kPointerRangeStart:
      return Give(out, range.start);
    case kPointerRangeSize:
      return Give(out, range.asked);
    case kPointerMapped:
      return Give(out, static_cast<unsigned>(range.access != kAccessNone));
    case kPointerAllowedHandleTypes:
      return Give(out, static_cast<unsigned long long>(
                           range.physical == nullptr ? 0 : range.physical->properties.handle_types));
    case kPointerAccessFlags:
      return Give(out, range.access);
    case kPointerPool:
      return Give(out, range.pool);
    default:
      return kNotSupported;
  }
}

}  // namespace

Return cuPointerGetAttribute(void* out, int attribute, Pointer pointer) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  const Range* range = RangeAt(pointer);
  if (out == nullptr || range == nullptr) return kInvalidValue;
  return GiveAttribute(out, attribute, *range, pointer);
}

// For memory unknown to CUDA, all attributes are zero and there is no error.
Return cuPointerGetAttributes(unsigned count, int* attributes, void** out, Pointer pointer) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (attributes == nullptr || out == nullptr) return kInvalidValue;
  const Range* range = RangeAt(pointer);
  for (unsigned i = 0; i < count; ++i) {
    if (range != nullptr && GiveAttribute(out[i], attributes[i], *range, pointer) == kSuccess) continue;
    const bool is_wide = attributes[i] == kPointerContext || attributes[i] == kPointerDevicePointer ||
                         attributes[i] == kPointerHostPointer || attributes[i] == kPointerBufferId ||
                         attributes[i] == kPointerRangeStart || attributes[i] == kPointerRangeSize;
    memset(out[i], 0, is_wide ? 8 : 4);
    if (attributes[i] == kPointerDeviceOrdinal) *static_cast<int*>(out[i]) = -2;
  }
  return kSuccess;
}

Return cuPointerSetAttribute(const void*, int attribute, Pointer pointer) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  return attribute == kPointerSyncMemops && RangeAt(pointer) != nullptr ? kSuccess : kInvalidValue;
}

// Managed memory never moves here, so advice has no effect.
Return cuMemAdvise(Pointer pointer, size_t, int, Device) {
  Call call;
  if (call.error != kSuccess) return call.error;
  const Range* range = RangeAt(pointer);
  return range != nullptr && range->kind == kManagedRange ? kSuccess : kInvalidValue;
}
Return cuMemAdvise_v2(Pointer pointer, size_t bytes, int advice, Location) {
  return cuMemAdvise(pointer, bytes, advice, 0);
}
Return cuMemPrefetchAsync(Pointer pointer, size_t bytes, Device, Stream) { return cuMemAdvise(pointer, bytes, 0, 0); }
Return cuMemPrefetchAsync_v2(Pointer pointer, size_t bytes, Location, unsigned, Stream) {
  return cuMemAdvise(pointer, bytes, 0, 0);
}
Return cuStreamAttachMemAsync(Stream, Pointer pointer, size_t bytes, unsigned) {
  return cuMemAdvise(pointer, bytes, 0, 0);
}

}  // namespace divvy::cuda
