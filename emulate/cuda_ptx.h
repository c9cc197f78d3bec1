// What the stand-in reads of PTX: the entries with their parameters, and the globals.
#pragma once

#include "cuda_driver.h"

namespace divvy::cuda {

/// Adds the entries of `text` to `functions`, the sizes of globals to `globals` (no range yet). An entry that is named
/// in a line "// divvy takes NAME NANOSECONDS" takes that long.
void ReadPtx(const char* text, List<Function>& functions, List<Global>& globals);

}  // namespace divvy::cuda
