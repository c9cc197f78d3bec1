// The door to NCCL: a process with a communicator of several ranks cannot be moved, one that only has NCCL loaded can.
#pragma once

namespace divvy::interpose {

/// What stands in the place of `real`, which dlsym has found under `name`; `real` itself where nothing does. A process
/// may have several copies of NCCL: each is called on for what it made itself.
void* NcclDoorOf(const char* name, void* real);
bool IsNcclHook(const char* name);
/// The function that a call of `name` from `caller` would have reached without this library; null: there is none.
void* RealNccl(const char* name, const void* caller);

}  // namespace divvy::interpose
