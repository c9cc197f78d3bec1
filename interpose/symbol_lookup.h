// The ways in which a program finds driver functions: exported symbols, dlsym and cuGetProcAddress. All use one table
// (hooks.inc).
#pragma once

#include "driver.h"

namespace divvy::interpose {

struct HookRow {
  Slot slot;
  const EntryPoint* entry_point;
};
extern const HookRow kHooks[];
extern const int kHookCount;

/// Returns this library's replacement for the driver function with this number, or null if it has none.
EntryPoint HookOf(Slot slot);

/// Returns true if this address is in the code or data of this library.
bool IsOwn(const void* address);

}  // namespace divvy::interpose
