// Access to the real driver. Each entry point that divvy knows (platform/gpu/cuda_functions.inc and more_functions.inc)
// has a slot, with the real function and the names and versions that select it. Nothing here depends on the tenant
// that the process belongs to (tenant.h).
#pragma once

#include "platform/gpu/cuda_api.h"

namespace divvy::cuda {

/// An argument that is only passed on: an integer, a pointer, or a struct of eight bytes.
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

using EntryPoint = void (*)();

/// Entry points, by the symbol that the driver exports.
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

/// Returns the number (slot) of a driver function by its exported symbol, such as "cuMemAlloc_v2"; kNoEntry if divvy
/// does not know it.
Slot SlotOfSymbol(const char* symbol);

/// Returns the number (slot) of the driver function that cuGetProcAddress selects for `name` and CUDA `version`: the
/// newest form of the function that this version has. With `is_per_thread`, prefers the form for the thread's own
/// default stream.
Slot SlotOfName(const char* name, int version, bool is_per_thread);

/// A driver function may have several forms, such as cuMemAlloc and cuMemAlloc_v2. Returns the slot of the form of
/// `name` that the driver has at `entry_point`; kNoEntry if none.
Slot SlotAt(const char* name, EntryPoint entry_point);

/// Returns true if the driver exports a form of `name` newer than all that divvy knows. For a recent version the driver
/// may then return a function with other parameters.
bool HasUnknownForm(const char* name);

/// Returns the driver's own function, or null if there is no driver or the driver lacks it. Finds a loaded library even
/// if the program opened it with RTLD_LOCAL. `is_loading`: also loads the driver's library if it is not loaded yet.
EntryPoint RealEntryPoint(Slot slot, bool is_loading = true);

/// Like RealEntryPoint, but returns a function that fails with cuda::kNotFound if the driver lacks the entry point.
EntryPoint CallableEntryPoint(Slot slot);

/// Makes every driver function fail with kContextIsDestroyed from now on, as after a GPU fault. Used when this
/// process's GPU memory is damaged, so that it does not compute with it.
void CutOffDriver();

template <typename Declared>
Declared* Real(Slot slot) {
  return reinterpret_cast<Declared*>(CallableEntryPoint(slot));
}

/// Calls the driver directly, bypassing all hooks, e.g. DRIVER(cuMemAlloc_v2)(&pointer, bytes).
#define DRIVER(symbol) (::divvy::interpose::Real<decltype(::divvy::cuda::symbol)>(::divvy::interpose::kSlot_##symbol))

/// Returns the address of libc's own dlsym, even if a loaded library replaces dlsym. RealDlsym calls it.
void* LibcDlsym();
void* RealDlsym(void* handle, const char* name);
/// Returns the dlopen handle of the CUDA driver's library; null if it is not loaded. `is_loading`: load it if
/// necessary.
void* DriverHandle(bool is_loading);

}  // namespace divvy::interpose
