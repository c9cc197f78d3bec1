// By which ways a program reaches the driver, and what it finds there: the exported symbols, dlsym, cuGetProcAddress.
// All go by one table (hooks.inc).
#pragma once

#include "driver.h"

namespace divvy::interpose {

struct HookRow {
  Slot slot;
  const Door* door;
};
extern const HookRow kHooks[];
extern const int kHookCount;

/// What stands in the place of the entry point; null: nothing does.
Door HookOf(Slot slot);

/// True if it lies in this library.
bool IsOwn(const void* address);

}  // namespace divvy::interpose
