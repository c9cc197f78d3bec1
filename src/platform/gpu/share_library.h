// libdivvy_cuda.so (interpose/), which the program carries: written out for the jobs that have shares of GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

/// Puts the library into `directory`, which is made if need be, in one step, and returns its path. One that is there
/// and the same is left alone; programs that run with an older one keep that.
Result<std::string> WriteShareLibrary(const std::string& directory);

/// What each process of a tenant has in its environment: "LD_PRELOAD=...", with `preloaded` (what LD_PRELOAD was; may
/// be empty) after the library, and "DIVVY_SHARE=`folder`", the tenant's (platform/gpu/tenant_page.h).
std::vector<std::string> ShareEnvironment(const std::string& library, const std::string& folder,
                                          const std::string& preloaded);

}  // namespace divvy
