// Converts a MIG instance from the core's representation to the controller's.
#pragma once

#include "engine/core/state/ask.h"
#include "model/gpus/gpu_slice.h"

namespace divvy {

/// The profile name is the standard one. Decision::NameSlice replaces it with the name that the node's driver uses.
GpuSlice SliceOf(placement::MigProfile profile, const core::GpuPlace& place);

}  // namespace divvy
