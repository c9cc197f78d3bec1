// Writes out libdivvy_cuda.so (interpose/), which this executable embeds, for jobs that have GPU fractions.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

/// Writes libdivvy_cuda.so into `directory` (created if needed) atomically, and returns its path. Leaves an identical
/// file untouched. Programs that run with an older version of the library keep that version.
Result<std::string> WriteShareLibrary(const std::string& directory);

/// Returns the variables for the environment of each process of a tenant. One is "LD_PRELOAD=..." with `preloaded` (the
/// previous LD_PRELOAD; may be empty) after the library. The other is "DIVVY_SHARE=`folder`", the tenant's folder
/// (platform/gpu/tenant_shm.h).
std::vector<std::string> ShareEnvironment(const std::string& library, const std::string& folder,
                                          const std::string& preloaded);

}  // namespace divvy
