// A MIG instance in the words of the core and of the controller.
#pragma once

#include "engine/core/state/ask.h"
#include "model/gpus/gpu_slice.h"

namespace divvy {

/// Its name is the driver's, which whoever knows the machine's GPUs fills in.
GpuSlice SliceOf(placement::MigProfile profile, const core::GpuPlace& place);

}  // namespace divvy
