#include "symbol_lookup.h"

#include <dlfcn.h>
#include <string.h>

#include <atomic>

#include "gate.h"
#include "hooks.h"
#include "nccl_hooks.h"
#include "nvml_hooks.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

bool BeginsWith(const char* text, const char* start) { return strncmp(text, start, strlen(start)) == 0; }

/// Returns a library without any of these names, so that dlsym fails in it.
void* LibcHandle() { return dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD); }

/// The result of looking up a name: the real function, if its library is loaded, and the hook.
struct Target {
  EntryPoint hook = nullptr;
  void* real = nullptr;
};

Target TargetOf(const char* name) {
  Target target;
  if (BeginsWith(name, "nvml")) {
    target.hook = NvmlHookOf(name);
    void* const nvml = target.hook == nullptr ? nullptr : NvmlHandle();
    if (nvml != nullptr) target.real = RealDlsym(nvml, name);
    return target;
  }
  const Slot slot = SlotOfSymbol(name);
  target.hook = slot == kNoEntry ? nullptr : HookOf(slot);
  if (target.hook != nullptr) target.real = reinterpret_cast<void*>(RealEntryPoint(slot, false));
  return target;
}

/// Replaces the result of cuGetProcAddress by a hook.
void Substitute(const char* name, void** function, int version, unsigned long long flags) {
  if (name == nullptr || function == nullptr || *function == nullptr || SharedPage() == nullptr) return;
  // If the driver's result is one of its exports, that identifies the form. Otherwise assume the form for the requested
  // version, unless the driver exports forms that are unknown here and may have other parameters.
  Slot slot = SlotAt(name, reinterpret_cast<EntryPoint>(*function));
  if (slot == kNoEntry && !HasUnknownForm(name)) {
    slot = SlotOfName(name, version, (flags & cuda::kProcPerThreadStream) != 0);
    if (slot != kNoEntry && RealEntryPoint(slot, false) == nullptr) slot = kNoEntry;  // A hook could not call it.
  }
  const EntryPoint hook = slot == kNoEntry ? nullptr : HookOf(slot);
  if (hook != nullptr) *function = reinterpret_cast<void*>(hook);
}

}  // namespace

bool IsOwn(const void* address) {
  static const char anchor = 0;
  Dl_info own{};
  Dl_info its{};
  return address != nullptr && dladdr(&anchor, &own) != 0 && dladdr(address, &its) != 0 &&
         own.dli_fbase == its.dli_fbase;
}

EntryPoint HookOf(Slot slot) {
  static std::atomic<bool> is_filled{false};
  static std::atomic<EntryPoint> hooks[kSlots];
  if (!is_filled.load(std::memory_order_acquire)) {  // Other threads may fill it with the same values.
    for (int i = 0; i < kHookCount; ++i) hooks[kHooks[i].slot].store(*kHooks[i].entry_point, std::memory_order_relaxed);
    is_filled.store(true, std::memory_order_release);
  }
  return hooks[slot].load(std::memory_order_relaxed);
}

cuda::Return cuGetProcAddress_hook(const char* name, void** function, int version, unsigned long long flags) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuGetProcAddress)(name, function, version, flags);
  if (result == cuda::kSuccess) Substitute(name, function, version, flags);
  return result;
}

cuda::Return cuGetProcAddress_v2_hook(const char* name, void** function, int version, unsigned long long flags,
                                      cuda::ProcAddressResult* found) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuGetProcAddress_v2)(name, function, version, flags, found);
  if (result == cuda::kSuccess) Substitute(name, function, version, flags);
  return result;
}

cuda::Return cuGetProcAddress_v2_ptsz_hook(const char* name, void** function, int version, unsigned long long flags,
                                           cuda::ProcAddressResult* found) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuGetProcAddress_v2_ptsz)(name, function, version, flags, found);
  // Without a stream flag, this form means the thread's own stream.
  const bool has_wish = (flags & (cuda::kProcLegacyStream | cuda::kProcPerThreadStream)) != 0;
  if (result == cuda::kSuccess) Substitute(name, function, version, has_wish ? flags : cuda::kProcPerThreadStream);
  return result;
}

/// The part of divvy_dlsym for NCCL, of which several copies may be loaded.
static void AnswerNccl(void* handle, const char* name, void** answer) {
  // With RTLD_NEXT, a library that is loaded before NCCL looks up NCCL's function. Its own callers come through this
  // library already, so the result is not replaced.
  if (handle == RTLD_NEXT) return;
  if (handle == RTLD_DEFAULT) {
    // This library comes first in the global scope. It answers only if there would be a result without it.
    void* const there = RealDlsym(RTLD_NEXT, name);
    if (there == nullptr) {
      answer[2] = LibcHandle();
    } else {
      answer[0] = NcclEntryPointOf(name, there);
    }
    return;
  }
  void* const found = RealDlsym(handle, name);
  if (found == nullptr) return;
  void* const real = IsOwn(found) ? RealNccl(name, nullptr) : found;
  if (real == nullptr) {
    answer[2] = LibcHandle();
  } else {
    answer[0] = NcclEntryPointOf(name, real);
  }
}

/// Called by dlsym (exports.S). `answer[0]` is the result; if it is null, libc's dlsym (`answer[1]`) is called with the
/// handle `answer[2]`.
extern "C" __attribute__((visibility("hidden"))) void divvy_dlsym(void* handle, const char* name, void** answer) {
  answer[0] = nullptr;
  answer[1] = LibcDlsym();
  answer[2] = handle;
  if (name == nullptr || !(BeginsWith(name, "cu") || BeginsWith(name, "nvml") || BeginsWith(name, "nccl"))) return;
  if (IsNcclHook(name)) {
    AnswerNccl(handle, name, answer);
    if (answer[0] != nullptr || answer[2] != handle) dlerror();
    return;
  }
  const Target target = TargetOf(name);
  if (target.hook == nullptr) return;
  const bool is_shared = SharedPage() != nullptr;
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
    // A symbol of the CUDA driver is found only if the driver is loaded, as it would be without this library.
    if (target.real == nullptr) {
      answer[2] = LibcHandle();
      return;
    }
    answer[0] = is_shared ? reinterpret_cast<void*>(target.hook) : target.real;
  } else {
    void* const found = RealDlsym(handle, name);
    if (found == nullptr) return;  // Looked up again by libc's dlsym, to set dlerror.
    const bool is_own = IsOwn(found);
    if (is_own && target.real == nullptr) {
      answer[2] = LibcHandle();
      return;
    }
    if (found != target.real && !is_own) {
      answer[0] = found;  // A function of that name in another library.
    } else {
      answer[0] = is_shared ? reinterpret_cast<void*>(target.hook) : target.real;
    }
  }
  dlerror();  // Errors of these attempts must not be visible to the caller.
}

}  // namespace divvy::interpose
