// The parts of PTX that the stand-in reads: kernels with their parameters, and globals.
#pragma once

#include "cuda_driver.h"

namespace divvy::cuda {

/// Adds the kernels in `text` to `functions` and the sizes of globals to `globals` (no range yet). A line "// divvy
/// takes NAME NANOSECONDS" sets the duration of that kernel.
void ReadPtx(const char* text, List<Function>& functions, List<Global>& globals);

}  // namespace divvy::cuda
