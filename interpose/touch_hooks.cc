// The entry points that only wait while the memory is off the device (one template for all), and the table of all
// hooks.
#include "gate.h"
#include "hooks.h"
#include "symbol_lookup.h"

namespace divvy::interpose {

namespace {

template <Slot slot, typename Declared>
struct Touched;

template <Slot slot, typename... Parameters>
struct Touched<slot, cuda::Return(Parameters...)> {
  static cuda::Return Call(Parameters... parameters) {
    const Inside inside(Touch::kOther);
    return Real<cuda::Return(Parameters...)>(slot)(parameters...);
  }
};

}  // namespace

// Each hook has its own variable, through which the exported symbol jumps (exports.S).
#define ROW_HOOK(symbol)                                                                  \
  extern "C" __attribute__((visibility("hidden"))) const EntryPoint divvy_entry_##symbol; \
  const EntryPoint divvy_entry_##symbol = reinterpret_cast<EntryPoint>(&symbol##_hook);
#define ROW_TOUCH(symbol)                                                                 \
  extern "C" __attribute__((visibility("hidden"))) const EntryPoint divvy_entry_##symbol; \
  const EntryPoint divvy_entry_##symbol =                                                 \
      reinterpret_cast<EntryPoint>(&Touched<kSlot_##symbol, decltype(cuda::symbol)>::Call);
#define HOOK(symbol) ROW_HOOK(symbol)
#define HOOK_PTSZ(symbol) ROW_HOOK(symbol) ROW_HOOK(symbol##_ptsz)
#define TOUCH(symbol) ROW_TOUCH(symbol)
#define TOUCH_PTSZ(symbol) ROW_TOUCH(symbol) ROW_TOUCH(symbol##_ptsz)
#define TOUCH_PTDS(symbol) ROW_TOUCH(symbol) ROW_TOUCH(symbol##_ptds)
#include "hooks.inc"
#undef HOOK
#undef HOOK_PTSZ
#undef TOUCH
#undef TOUCH_PTSZ
#undef TOUCH_PTDS

#define HOOK(symbol) {kSlot_##symbol, &divvy_entry_##symbol},
#define HOOK_PTSZ(symbol) HOOK(symbol) HOOK(symbol##_ptsz)
#define TOUCH(symbol) HOOK(symbol)
#define TOUCH_PTSZ(symbol) HOOK(symbol) HOOK(symbol##_ptsz)
#define TOUCH_PTDS(symbol) HOOK(symbol) HOOK(symbol##_ptds)
const HookRow kHooks[] = {
#include "hooks.inc"
};
#undef HOOK
#undef HOOK_PTSZ
#undef TOUCH
#undef TOUCH_PTSZ
#undef TOUCH_PTDS
const int kHookCount = static_cast<int>(sizeof kHooks / sizeof kHooks[0]);

}  // namespace divvy::interpose
