// Plain allocations, and queries about memory.
#include "gate.h"
#include "hooks.h"
#include "link.h"
#include "memory.h"
#include "pools.h"
#include "records.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr std::uint64_t kPitch = 512;  // Drivers round the rows of a pitched allocation up to this.

/// Returns the device to charge. kNotOurs: not shared, called by the driver itself, or no context.
unsigned CountedDevice(cuda::Device* ordinal) {
  const Inside inside(Touch::kOther);
  if (!inside.is_ours()) return kNotOurs;
  cuda::Context context = nullptr;
  if (DRIVER(cuCtxGetCurrent)(&context) != cuda::kSuccess || context == nullptr) return kNotOurs;
  return CurrentDevice(ordinal);
}

/// Counts `bytes`, lets the driver allocate them, and records them under the resulting `pointer`.
template <typename Call>
cuda::Return AllocatePlain(unsigned device, std::uint64_t bytes, const cuda::Pointer* pointer, Call call) {
  cuda::Return result = Take(device, bytes);
  if (result != cuda::kSuccess) return result;
  const Inside inside(Touch::kOther, device);
  result = call();
  if (result == cuda::kSuccess) {
    Remember(kPointers, *pointer, device, bytes);
  } else {
    GiveBack(device, bytes);
  }
  return result;
}

}  // namespace

cuda::Return cuMemAlloc_v2_hook(cuda::Pointer* pointer, size_t bytes) {
  cuda::Device ordinal = -1;
  const unsigned device = pointer == nullptr || bytes == 0 ? kNotOurs : CountedDevice(&ordinal);
  if (device == kNotOurs) {
    const Inside inside(Touch::kOther);
    return DRIVER(cuMemAlloc_v2)(pointer, bytes);
  }
  const cuda::Return result = AllocateMapped(device, ordinal, bytes, pointer);
  if (result != cuda::kNotSupported) return result;
  return AllocatePlain(device, bytes, pointer, [&] { return DRIVER(cuMemAlloc_v2)(pointer, bytes); });
}

cuda::Return cuMemAllocPitch_v2_hook(cuda::Pointer* pointer, size_t* pitch, size_t width, size_t height,
                                     unsigned element_bytes) {
  cuda::Device ordinal = -1;
  const bool is_right = pointer != nullptr && pitch != nullptr && width != 0 && height != 0 &&
                        width <= ~std::uint64_t{0} - kPitch &&
                        (element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
  const unsigned device = is_right ? CountedDevice(&ordinal) : kNotOurs;
  const std::uint64_t row = (width + kPitch - 1) / kPitch * kPitch;
  if (device == kNotOurs || height > ~std::uint64_t{0} / row) {
    const Inside inside(Touch::kOther);
    return DRIVER(cuMemAllocPitch_v2)(pointer, pitch, width, height, element_bytes);
  }
  const cuda::Return result = AllocateMapped(device, ordinal, row * height, pointer);
  if (result == cuda::kSuccess) *pitch = row;
  if (result != cuda::kNotSupported) return result;
  return AllocatePlain(device, row * height, pointer,
                       [&] { return DRIVER(cuMemAllocPitch_v2)(pointer, pitch, width, height, element_bytes); });
}

cuda::Return cuMemAllocManaged_hook(cuda::Pointer* pointer, size_t bytes, unsigned flags) {
  const unsigned device = pointer == nullptr || bytes == 0 ? kNotOurs : CountedDevice(nullptr);
  const auto call = [&] { return DRIVER(cuMemAllocManaged)(pointer, bytes, flags); };
  if (device == kNotOurs) {
    const Inside inside(Touch::kOther);
    return call();
  }
  BeforePinning(share::kManaged);
  SetFlags(share::kManaged);
  return AllocatePlain(device, bytes, pointer, call);  // Counts all of it, because it may be entirely on the device.
}

cuda::Return cuMemFree_v2_hook(cuda::Pointer pointer) {
  if (IsNested() || !IsShared()) return DRIVER(cuMemFree_v2)(pointer);
  cuda::Return result = cuda::kSuccess;
  if (FreeMapped(pointer, result)) return result;
  // Remove the record before the call: the address may be reused as soon as the driver frees it.
  const unsigned device = DeviceOfRecord(kPointers, pointer);
  const Inside inside(Touch::kOther, device == kNotOurs ? CurrentDevice() : device);
  Forgetting forgetting(kPointers, pointer);
  result = DRIVER(cuMemFree_v2)(pointer);
  if (result == cuda::kInvalidValue) forgetting.Undo();
  // This library has no record of the freed memory, so it may have been memory of a pool or of a graph. Their sizes are
  // measured again.
  if (result == cuda::kSuccess && !forgetting.is_known() && inside.is_ours()) {
    MeasureAllPools();
    MeasureAllGraphMemory();
  }
  return result;
}

cuda::Return cuMemGetInfo_v2_hook(size_t* free, size_t* total) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuMemGetInfo_v2)(free, total);
  if (result != cuda::kSuccess || !inside.is_ours() || inside.device() == kNotOurs || free == nullptr ||
      total == nullptr) {
    return result;
  }
  std::uint64_t shown = *total;
  std::uint64_t used = 0;
  if (!ShownMemory(inside.device(), shown, used)) return result;
  *total = shown;
  *free = shown - used;
  return result;
}

cuda::Return cuDeviceTotalMem_v2_hook(size_t* bytes, cuda::Device ordinal) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuDeviceTotalMem_v2)(bytes, ordinal);
  if (result != cuda::kSuccess || bytes == nullptr || !inside.is_ours()) return result;
  std::uint64_t shown = *bytes;
  std::uint64_t used = 0;
  if (!ShownMemory(DeviceOf(ordinal), shown, used)) return result;
  *bytes = shown;
  return result;
}

cuda::Return cuMemGetAddressRange_v2_hook(cuda::Pointer* base, size_t* bytes, cuda::Pointer pointer) {
  cuda::Pointer its_base = 0;
  std::uint64_t its_bytes = 0;
  cuda::Context context = nullptr;
  const Inside inside(Touch::kOther);
  if (!inside.is_ours() || !FindMapped(pointer, its_base, its_bytes, context)) {
    return DRIVER(cuMemGetAddressRange_v2)(base, bytes, pointer);
  }
  if (base != nullptr) *base = its_base;
  if (bytes != nullptr) *bytes = its_bytes;
  return cuda::kSuccess;
}

namespace {

/// Corrects the driver's answer about a mapping, since the driver does not know the program's allocations in it.
bool AnswerAttribute(void* out, int attribute, cuda::Pointer pointer) {
  const bool is_range = attribute == cuda::kPointerRangeStart || attribute == cuda::kPointerRangeSize;
  if (out == nullptr || (!is_range && attribute != cuda::kPointerContext)) return false;
  cuda::Pointer base = 0;
  std::uint64_t bytes = 0;
  cuda::Context context = nullptr;
  if (!FindMapped(pointer, base, bytes, context)) return false;
  if (attribute == cuda::kPointerContext) *static_cast<cuda::Context*>(out) = context;
  if (attribute == cuda::kPointerRangeStart) *static_cast<cuda::Pointer*>(out) = base;
  if (attribute == cuda::kPointerRangeSize) *static_cast<size_t*>(out) = bytes;
  return true;
}

}  // namespace

cuda::Return cuPointerGetAttribute_hook(void* out, int attribute, cuda::Pointer pointer) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuPointerGetAttribute)(out, attribute, pointer);
  if (!inside.is_ours() || !AnswerAttribute(out, attribute, pointer)) return result;
  return cuda::kSuccess;
}

cuda::Return cuPointerGetAttributes_hook(unsigned count, int* attributes, void** out, cuda::Pointer pointer) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuPointerGetAttributes)(count, attributes, out, pointer);
  if (result != cuda::kSuccess || !inside.is_ours()) return result;
  for (unsigned i = 0; i < count; ++i) AnswerAttribute(out[i], attributes[i], pointer);
  return result;
}

}  // namespace divvy::interpose
