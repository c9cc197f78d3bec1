// Hooks for NVML: replacements of entry points of libnvidia-ml.so.1.
#pragma once

#include "driver.h"

namespace divvy::interpose {

/// Returns null if there is no replacement.
EntryPoint NvmlHookOf(const char* symbol);
/// Returns the handle of the loaded library; null if it is not loaded.
void* NvmlHandle();

}  // namespace divvy::interpose
