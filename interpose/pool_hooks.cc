// Stream-ordered memory. It stays with the driver; pools.h says why.
#include "contexts.h"
#include "gate.h"
#include "hooks.h"
#include "link.h"
#include "memory.h"
#include "pools.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

/// Returns true during a capture. An allocation then becomes a graph node without memory, which is counted at
/// instantiation.
bool IsCapturing(cuda::Stream stream) {
  int status = 0;
  return DRIVER(cuStreamIsCapturing)(stream, &status) == cuda::kSuccess && status != cuda::kCaptureNone;
}

/// Returns the device of a stream, which may not belong to the current context. Requires: inside the gate.
unsigned DeviceOfStream(cuda::Stream stream, cuda::Device& ordinal) {
  constexpr std::uint64_t kMostSpecial = cuda::kStreamPerThread;  // Special handles belong to the current context.
  if (HasOneDevice() || reinterpret_cast<std::uint64_t>(stream) <= kMostSpecial) return CurrentDevice(&ordinal);
  if (DRIVER(cuStreamGetDevice)(stream, &ordinal) == cuda::kSuccess) return DeviceOf(ordinal);
  cuda::Context context = nullptr;
  if (DRIVER(cuStreamGetCtx)(stream, &context) != cuda::kSuccess) return CurrentDevice(&ordinal);
  const ContextOf current(context);
  return CurrentDevice(&ordinal);
}

template <typename Call, typename Undo>
cuda::Return AllocateAsync(cuda::Pool pool, std::uint64_t bytes, cuda::Stream stream, Call call, Undo undo) {
  struct Both {
    Call& call;
    Undo& undo;
  } both = {call, undo};
  unsigned device = kNotOurs;
  {
    const Inside inside(Touch::kOther);
    cuda::Device ordinal = -1;
    if (inside.is_ours()) device = DeviceOfStream(stream, ordinal);
    if (device != kNotOurs && pool == nullptr) pool = PoolOf(ordinal);
    if (inside.is_ours() && pool != nullptr) device = DeviceOfPool(pool, device);
    if (device == kNotOurs || pool == nullptr || bytes == 0 || IsCapturing(stream)) return call();
  }
  return AllocateFromPool(
      device, pool, bytes, [](void* argument) { return static_cast<Both*>(argument)->call(); },
      [](void* argument) { return static_cast<Both*>(argument)->undo(); }, &both);
}

template <typename Call>
cuda::Return FreeAsync(cuda::Pointer pointer, cuda::Stream stream, Call call) {
  if (IsNested() || !IsShared()) return call();
  cuda::Pointer base = 0;
  std::uint64_t bytes = 0;
  cuda::Context context = nullptr;
  if (FindMapped(pointer, base, bytes, context) && base == pointer) {
    // The program frees memory of cuMemAlloc with cuMemFreeAsync. It must be freed after all earlier work of the
    // stream, so this waits for that work and frees it now.
    cuda::Return result = cuda::kSuccess;
    {
      const Inside inside(Touch::kOther);
      if (IsCapturing(stream)) return cuda::kStreamCaptureUnsupported;
    }
    FreeMapped(pointer, result);
    return result;
  }
  const Inside inside(Touch::kOther);
  const cuda::Return result = call();
  if (result == cuda::kSuccess && inside.is_ours()) MeasureAllPools();
  return result;
}

/// Records a pool that the driver created or returned.
void NotePoolAt(const cuda::Location& location, cuda::Pool pool) {
  NotePool(location.type == cuda::kLocationDevice ? DeviceOf(location.id) : kNotOurs, pool);
}

}  // namespace

#define ALLOC_ASYNC(symbol, free_symbol, own)                                             \
  cuda::Return symbol##_hook(cuda::Pointer* pointer, size_t bytes, cuda::Stream stream) { \
    const auto call = [&] { return DRIVER(symbol)(pointer, bytes, stream); };             \
    const auto undo = [&] {                                                               \
      const cuda::Return result = DRIVER(free_symbol)(*pointer, stream);                  \
      DRIVER(cuStreamSynchronize)(own);                                                   \
      return result;                                                                      \
    };                                                                                    \
    return AllocateAsync(nullptr, bytes, own, call, undo);                                \
  }
ALLOC_ASYNC(cuMemAllocAsync, cuMemFreeAsync, stream)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, cuMemFreeAsync_ptsz, OwnStream(stream))
#undef ALLOC_ASYNC

#define ALLOC_FROM_POOL(symbol, free_symbol, own)                                                          \
  cuda::Return symbol##_hook(cuda::Pointer* pointer, size_t bytes, cuda::Pool pool, cuda::Stream stream) { \
    const auto call = [&] { return DRIVER(symbol)(pointer, bytes, pool, stream); };                        \
    const auto undo = [&] {                                                                                \
      const cuda::Return result = DRIVER(free_symbol)(*pointer, stream);                                   \
      DRIVER(cuStreamSynchronize)(own);                                                                    \
      return result;                                                                                       \
    };                                                                                                     \
    return AllocateAsync(pool, bytes, own, call, undo);                                                    \
  }
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, cuMemFreeAsync, stream)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync_ptsz, OwnStream(stream))
#undef ALLOC_FROM_POOL

cuda::Return cuMemFreeAsync_hook(cuda::Pointer pointer, cuda::Stream stream) {
  return FreeAsync(pointer, stream, [&] { return DRIVER(cuMemFreeAsync)(pointer, stream); });
}
cuda::Return cuMemFreeAsync_ptsz_hook(cuda::Pointer pointer, cuda::Stream stream) {
  return FreeAsync(pointer, OwnStream(stream), [&] { return DRIVER(cuMemFreeAsync_ptsz)(pointer, stream); });
}

cuda::Return cuMemPoolCreate_hook(cuda::Pool* pool, const cuda::PoolProperties* properties) {
  if (IsNested() || !IsShared() || properties == nullptr) return DRIVER(cuMemPoolCreate)(pool, properties);
  const bool is_of_device = properties->location.type == cuda::kLocationDevice;
  const unsigned device = is_of_device ? DeviceOf(properties->location.id) : kNotOurs;
  std::uint32_t flags = 0;
  if (device != kNotOurs) flags |= share::kPlainMemory;
  if (properties->handle_types != cuda::kHandleNone) flags |= share::kExternal;
  if (properties->type == cuda::kAllocationManaged) flags |= share::kManaged;
  BeforePinning(flags);
  const Inside inside(Touch::kOther, device == kNotOurs ? Inside::kCurrent : device);
  const cuda::Return result = DRIVER(cuMemPoolCreate)(pool, properties);
  if (result != cuda::kSuccess) return result;
  if (flags != 0) SetFlags(flags);
  NotePoolAt(properties->location, *pool);
  return result;
}

cuda::Return cuMemPoolDestroy_hook(cuda::Pool pool) {
  const Inside inside(Touch::kOther);
  if (inside.is_ours()) ForgetPool(pool);
  return DRIVER(cuMemPoolDestroy)(pool);
}

cuda::Return cuMemPoolTrimTo_hook(cuda::Pool pool, size_t keep) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuMemPoolTrimTo)(pool, keep);
  if (inside.is_ours()) MeasureAllPools();
  return result;
}

cuda::Return cuMemGetDefaultMemPool_hook(cuda::Word pool, cuda::Word location, cuda::Word type) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuMemGetDefaultMemPool)(pool, location, type);
  if (result == cuda::kSuccess && inside.is_ours()) {
    NotePoolAt(*reinterpret_cast<cuda::Location*>(location), *reinterpret_cast<cuda::Pool*>(pool));  // NOLINT
  }
  return result;
}
cuda::Return cuMemGetMemPool_hook(cuda::Word pool, cuda::Word location, cuda::Word type) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuMemGetMemPool)(pool, location, type);
  if (result == cuda::kSuccess && inside.is_ours()) {
    NotePoolAt(*reinterpret_cast<cuda::Location*>(location), *reinterpret_cast<cuda::Pool*>(pool));  // NOLINT
  }
  return result;
}

cuda::Return cuMemPoolExportToShareableHandle_hook(void* handle, cuda::Pool pool, int type, unsigned long long flags) {
  BeforePinning(share::kIpc);
  if (!IsNested() && IsShared()) SetFlags(share::kIpc);
  const Inside inside(Touch::kOther);
  return DRIVER(cuMemPoolExportToShareableHandle)(handle, pool, type, flags);
}
cuda::Return cuMemPoolImportFromShareableHandle_hook(cuda::Pool* pool, void* handle, int type,
                                                     unsigned long long flags) {
  BeforePinning(share::kIpc);
  if (!IsNested() && IsShared()) SetFlags(share::kIpc);
  const Inside inside(Touch::kOther);
  return DRIVER(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags);
}

}  // namespace divvy::interpose
