// Hooks for NCCL. A process with a communicator of several ranks cannot be moved; one that only loaded NCCL can.
#pragma once

namespace divvy::interpose {

/// Returns the replacement for `real`, which dlsym found as `name`, or `real` itself if there is no replacement. A
/// process may have several copies of NCCL; each keeps handling its own communicators.
void* NcclEntryPointOf(const char* name, void* real);
bool IsNcclHook(const char* name);
/// Returns the NCCL function that a call of `name` from the code at `caller` would reach if this library were not
/// loaded; null if none.
void* RealNccl(const char* name, const void* caller);

}  // namespace divvy::interpose
