// Memory shared with other processes and programs. It is counted here while it is open, because its creator may end
// earlier.
#include <atomic>

#include "gate.h"
#include "hooks.h"
#include "link.h"
#include "memory.h"
#include "records.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

/// Call this before the driver call, outside the gate.
void Mark(std::uint32_t flags) {
  if (IsNested() || !IsShared()) return;
  BeforePinning(flags);
  SetFlags(flags);
}

template <typename Call>
cuda::Return Opened(const cuda::Pointer* pointer, Call call) {
  const unsigned device = pointer == nullptr ? kNotOurs : GatedDevice();
  if (device == kNotOurs) {
    const Inside inside(Touch::kOther);
    return call();
  }
  Mark(share::kIpc);
  size_t bytes = 0;
  {
    const Inside inside(Touch::kOther, device);
    const cuda::Return result = call();
    if (result != cuda::kSuccess) return result;
    cuda::Pointer base = 0;
    if (DRIVER(cuMemGetAddressRange_v2)(&base, &bytes, *pointer) != cuda::kSuccess) return result;
  }
  // The mapping takes no additional device memory; its size is known only now.
  const cuda::Return result = Take(device, bytes);
  const Inside inside(Touch::kOther, device);
  if (result != cuda::kSuccess) {
    DRIVER(cuIpcCloseMemHandle)(*pointer);
    return result;
  }
  Remember(kIpcPointers, *pointer, device, bytes);
  return result;
}

}  // namespace

cuda::Return cuIpcGetMemHandle_hook(cuda::IpcMemory* handle, cuda::Pointer pointer) {
  cuda::Pointer base = 0;
  std::uint64_t bytes = 0;
  cuda::Context context = nullptr;
  if (!IsNested() && IsShared() && FindMapped(pointer, base, bytes, context)) {
    // The driver refuses this. The library explains the remedy, which the program's own message rarely does.
    static std::atomic<bool> has_spoken{false};
    if (!has_spoken.exchange(true)) {
      Say("CUDA IPC cannot share memory of a GPU fraction that can be moved",
          "set DIVVY_SHARE_MEMORY=plain in the job's environment; the job then stays on its GPU");
    }
  } else {
    Mark(share::kIpc);
  }
  const Inside inside(Touch::kOther);
  return DRIVER(cuIpcGetMemHandle)(handle, pointer);
}
cuda::Return cuIpcOpenMemHandle_hook(cuda::Pointer* pointer, cuda::IpcMemory handle, unsigned flags) {
  return Opened(pointer, [&] { return DRIVER(cuIpcOpenMemHandle)(pointer, handle, flags); });
}
cuda::Return cuIpcOpenMemHandle_v2_hook(cuda::Pointer* pointer, cuda::IpcMemory handle, unsigned flags) {
  return Opened(pointer, [&] { return DRIVER(cuIpcOpenMemHandle_v2)(pointer, handle, flags); });
}
cuda::Return cuIpcCloseMemHandle_hook(cuda::Pointer pointer) {
  const Inside inside(Touch::kOther);
  Forgetting forgetting(kIpcPointers, pointer);
  const cuda::Return result = DRIVER(cuIpcCloseMemHandle)(pointer);
  if (result != cuda::kSuccess) forgetting.Undo();
  return result;
}
cuda::Return cuIpcGetEventHandle_hook(cuda::IpcEvent* handle, cuda::Event event) {
  Mark(share::kIpc);
  const Inside inside(Touch::kOther);
  return DRIVER(cuIpcGetEventHandle)(handle, event);
}
cuda::Return cuIpcOpenEventHandle_hook(cuda::Event* event, cuda::IpcEvent handle) {
  Mark(share::kIpc);
  const Inside inside(Touch::kOther);
  return DRIVER(cuIpcOpenEventHandle)(event, handle);
}

cuda::Return cuImportExternalMemory_hook(cuda::ExternalMemory* memory, const cuda::ExternalMemoryHandle* handle) {
  const auto call = [&] { return DRIVER(cuImportExternalMemory)(memory, handle); };
  const unsigned device = memory == nullptr || handle == nullptr ? kNotOurs : GatedDevice();
  if (device == kNotOurs) {
    const Inside inside(Touch::kOther);
    return call();
  }
  Mark(share::kExternal);
  cuda::Return result = Take(device, handle->size);
  if (result != cuda::kSuccess) return result;
  const Inside inside(Touch::kOther, device);
  result = call();
  if (result == cuda::kSuccess) {
    Remember(kExternals, KeyOf(*memory), device, handle->size);
  } else {
    GiveBack(device, handle->size);
  }
  return result;
}

cuda::Return cuDestroyExternalMemory_hook(cuda::ExternalMemory memory) {
  const Inside inside(Touch::kOther);
  Forgetting forgetting(kExternals, KeyOf(memory));
  const cuda::Return result = DRIVER(cuDestroyExternalMemory)(memory);
  if (result != cuda::kSuccess) forgetting.Undo();
  return result;
}

cuda::Return cuImportExternalSemaphore_hook(cuda::ExternalSemaphore* semaphore,
                                            const cuda::ExternalSemaphoreHandle* handle) {
  Mark(share::kExternal);
  const Inside inside(Touch::kOther);
  return DRIVER(cuImportExternalSemaphore)(semaphore, handle);
}

// Other GPUs and processes reach memory that is bound to a multicast object or a logical endpoint. A move would leave
// them the old memory.
using cuda::Word;
#define BOUND(symbol, flags, parameters, arguments) \
  cuda::Return symbol##_hook parameters {           \
    Mark(flags);                                    \
    const Inside inside(Touch::kOther);             \
    return DRIVER(symbol) arguments;                \
  }
BOUND(cuMulticastBindMem, share::kPeers, (Word a, Word b, Word c, Word d, Word e, Word f), (a, b, c, d, e, f))
BOUND(cuMulticastBindMem_v2, share::kPeers, (Word a, Word b, Word c, Word d, Word e, Word f, Word g),
      (a, b, c, d, e, f, g))
BOUND(cuMulticastBindAddr, share::kPeers, (Word a, Word b, Word c, Word d, Word e), (a, b, c, d, e))
BOUND(cuMulticastBindAddr_v2, share::kPeers, (Word a, Word b, Word c, Word d, Word e, Word f), (a, b, c, d, e, f))
BOUND(cuLogicalEndpointBindMem, share::kExternal, (Word a, Word b, Word c, Word d, Word e, Word f, Word g),
      (a, b, c, d, e, f, g))
BOUND(cuLogicalEndpointBindAddr, share::kExternal, (Word a, Word b, Word c, Word d, Word e, Word f), (a, b, c, d, e, f))
BOUND(cuLogicalEndpointExport, share::kExternal, (Word a, Word b, Word c), (a, b, c))
BOUND(cuLogicalEndpointImport, share::kExternal, (Word a, Word b, Word c), (a, b, c))
#undef BOUND

}  // namespace divvy::interpose
