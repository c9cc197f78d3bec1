#include "doors.h"

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

/// A library that has none of these names, for dlsym to fail in.
void* LibcHandle() { return dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD); }

/// What a name leads to past us: the library that has it, if it is loaded, and what stands in its place.
struct Target {
  Door hook = nullptr;
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
  if (target.hook != nullptr) target.real = reinterpret_cast<void*>(RealDoor(slot, false));
  return target;
}

/// What cuGetProcAddress gives, with a hook in the place of the driver's own.
void Substitute(const char* name, void** function, int version, unsigned long long flags) {
  if (name == nullptr || function == nullptr || *function == nullptr || SharedPage() == nullptr) return;
  // Which form it is shows best in what the driver gives: one of those that it exports. Else it is as old as was asked
  // for, unless there are forms that came after this was written, which may have other parameters.
  Slot slot = SlotAt(name, reinterpret_cast<Door>(*function));
  if (slot == kNoEntry && !HasUnknownForm(name)) {
    slot = SlotOfName(name, version, (flags & cuda::kProcPerThreadStream) != 0);
  }
  const Door hook = slot == kNoEntry ? nullptr : HookOf(slot);
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

Door HookOf(Slot slot) {
  static std::atomic<bool> is_filled{false};
  static std::atomic<Door> hooks[kSlots];
  if (!is_filled.load(std::memory_order_acquire)) {  // Whoever else fills it writes the same.
    for (int i = 0; i < kHookCount; ++i) hooks[kHooks[i].slot].store(*kHooks[i].door, std::memory_order_relaxed);
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
  // Without a wish, this form means the thread's own stream.
  const bool has_wish = (flags & (cuda::kProcLegacyStream | cuda::kProcPerThreadStream)) != 0;
  if (result == cuda::kSuccess) Substitute(name, function, version, has_wish ? flags : cuda::kProcPerThreadStream);
  return result;
}

/// As divvy_dlsym, of NCCL, of which there may be several.
static void AnswerNccl(void* handle, const char* name, void** answer) {
  if (handle == RTLD_NEXT) return;  // Of who stands in front of NCCL as well: called from here already.
  if (handle == RTLD_DEFAULT) {
    // Ours, as the first in the global scope, but only where there would be one without us.
    void* const there = RealDlsym(RTLD_NEXT, name);
    if (there == nullptr) {
      answer[2] = LibcHandle();
    } else {
      answer[0] = NcclDoorOf(name, there);
    }
    return;
  }
  void* const found = RealDlsym(handle, name);
  if (found == nullptr) return;
  void* const real = IsOwn(found) ? RealNccl(name, nullptr) : found;
  if (real == nullptr) {
    answer[2] = LibcHandle();
  } else {
    answer[0] = NcclDoorOf(name, real);
  }
}

/// For dlsym (exports.S): `answer[0]`: what to return, or null: libc's (`answer[1]`) is to be asked, of `answer[2]`.
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
    // Found only where the driver is loaded; without this library's being here they would not be.
    if (target.real == nullptr) {
      answer[2] = LibcHandle();
      return;
    }
    answer[0] = is_shared ? reinterpret_cast<void*>(target.hook) : target.real;
  } else {
    void* const found = RealDlsym(handle, name);
    if (found == nullptr) return;  // Asked once more, for dlerror.
    const bool is_own = IsOwn(found);
    if (is_own && target.real == nullptr) {
      answer[2] = LibcHandle();
      return;
    }
    if (found != target.real && !is_own) {
      answer[0] = found;  // Another library's function of that name.
    } else {
      answer[0] = is_shared ? reinterpret_cast<void*>(target.hook) : target.real;
    }
  }
  dlerror();  // What was tried on the way is not the caller's error.
}

}  // namespace divvy::interpose
