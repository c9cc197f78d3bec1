// What stands in the place of each entry point of the driver that is not simply passed on: SYMBOL_hook for each row of
// hooks.inc, with the parameters of the driver's own.
#pragma once

#include "driver.h"

namespace divvy::interpose {

#define HOOK(symbol) decltype(cuda::symbol) symbol##_hook;
#define HOOK_PTSZ(symbol)               \
  decltype(cuda::symbol) symbol##_hook; \
  decltype(cuda::symbol##_ptsz) symbol##_ptsz_hook;
#define TOUCH(symbol)
#define TOUCH_PTSZ(symbol)
#define TOUCH_PTDS(symbol)
#include "hooks.inc"
#undef HOOK
#undef HOOK_PTSZ
#undef TOUCH
#undef TOUCH_PTSZ
#undef TOUCH_PTDS

/// What the driver's variants for the thread's own stream mean by stream 0.
inline cuda::Stream OwnStream(cuda::Stream stream) {
  return stream != nullptr ? stream : reinterpret_cast<cuda::Stream>(cuda::kStreamPerThread);  // NOLINT
}

}  // namespace divvy::interpose
