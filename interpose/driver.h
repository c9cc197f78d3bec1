// The driver behind this library: one slot for each entry point that divvy knows (platform/gpu/cuda_functions.inc and
// more_functions.inc), where the real one is, and which names and versions lead to it. Reads nothing of the tenant.
#pragma once

#include "platform/gpu/cuda_api.h"

namespace divvy::cuda {

/// An argument that is only handed on: an integer, a pointer, or a struct of eight bytes.
using Word = unsigned long;

#define DIVVY_CUDA_MORE extern "C" __attribute__((visibility("default"))) Return
#define DIVVY_CUDA(name, symbol, since, parameters) DIVVY_CUDA_MORE symbol parameters;
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) \
  DIVVY_CUDA_MORE symbol parameters;                     \
  DIVVY_CUDA_MORE symbol##_ptsz parameters;
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) \
  DIVVY_CUDA_MORE symbol parameters;                     \
  DIVVY_CUDA_MORE symbol##_ptds parameters;
#include "more_functions.inc"
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_MORE

}  // namespace divvy::cuda

namespace divvy::interpose {

using Door = void (*)();

/// An entry point, by the symbol that the driver exports.
enum Slot : int {
#define DIVVY_CUDA(name, symbol, since, parameters) kSlot_##symbol,
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) kSlot_##symbol, kSlot_##symbol##_ptsz,
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) kSlot_##symbol, kSlot_##symbol##_ptds,
#define DIVVY_CUDA_ALIAS(name, symbol, since)
#include "more_functions.inc"
#include "platform/gpu/cuda_functions.inc"
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS
  kSlots,
  kNoEntry = -1,
};

/// What the driver exports as this; kNoEntry: nothing that divvy knows.
Slot SlotOfSymbol(const char* symbol);

/// What cuGetProcAddress means by `name` for who asks for CUDA `version`: the newest form that is not newer than that,
/// and the form for the thread's own default stream where `is_per_thread` and there is one.
Slot SlotOfName(const char* name, int version, bool is_per_thread);

/// The form of `name` that is the driver's function at `door`; kNoEntry: none that divvy knows is there.
Slot SlotAt(const char* name, Door door);

/// True if the driver exports a form of `name` that is newer than all that divvy knows: what it gives for a late
/// version may then have other parameters.
bool HasUnknownForm(const char* name);

/// The driver's own function; null: there is no driver, or it does not have it. A library that is there is found even
/// if the program opened it for itself alone; `is_loading`: opens it if nobody has yet.
Door RealDoor(Slot slot, bool is_loading = true);

/// The same, to be called: where the driver does not have it, a function that returns cuda::kNotFound.
Door CallableDoor(Slot slot);

/// From now on every function of the driver's fails with kContextIsDestroyed, as after a fault of the GPU: what this
/// process had there is damaged, and it is not to compute with it.
void CutOffDriver();

template <typename Declared>
Declared* Real(Slot slot) {
  return reinterpret_cast<Declared*>(CallableDoor(slot));
}

/// DRIVER(cuMemAlloc_v2)(&pointer, bytes): past all doors, to the driver.
#define DRIVER(symbol) (::divvy::interpose::Real<decltype(::divvy::cuda::symbol)>(::divvy::interpose::kSlot_##symbol))

/// dlsym of libc, whoever else is loaded; and a call of it.
void* LibcDlsym();
void* RealDlsym(void* handle, const char* name);
/// Where in this process the driver's library is; null: nobody has opened it.
void* DriverHandle(bool is_loading);

}  // namespace divvy::interpose
