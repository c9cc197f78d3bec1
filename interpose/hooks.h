// The replacements of driver entry points that are not simply passed on: SYMBOL_hook for each row of hooks.inc, with
// the parameters of the original.
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

/// Driver functions have variants in which stream 0 means the thread's own default stream. Returns the stream that
/// `stream` means in these.
inline cuda::Stream OwnStream(cuda::Stream stream) {
  return stream != nullptr ? stream : reinterpret_cast<cuda::Stream>(cuda::kStreamPerThread);  // NOLINT
}

}  // namespace divvy::interpose
