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

/// Returns the replacement of the entry point, or null if there is none.
EntryPoint HookOf(Slot slot);

/// Returns true if the address lies in this library.
bool IsOwn(const void* address);

}  // namespace divvy::interpose
