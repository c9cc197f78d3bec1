// The door to NVML: what stands in the place of an entry point of libnvidia-ml.so.1.
#pragma once

#include "driver.h"

namespace divvy::interpose {

/// Null: nothing does.
Door NvmlHookOf(const char* symbol);
/// Where it is loaded; null: it is not.
void* NvmlHandle();

}  // namespace divvy::interpose
