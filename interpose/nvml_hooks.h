// Hooks for NVML: replacements of entry points of libnvidia-ml.so.1.
#pragma once

#include "driver.h"

namespace divvy::interpose {

/// Returns this library's replacement for an NVML function; null if it has none.
EntryPoint NvmlHookOf(const char* symbol);
/// Returns the dlopen handle of the NVML library; null if it is not loaded.
void* NvmlHandle();

}  // namespace divvy::interpose
