// Memory that the driver keeps in pools: of cuMemAllocAsync, of explicit pools, of graphs. It stays with the driver,
// which alone knows the order of streams in which it is free again; what is counted is what the driver says that it has
// reserved for the pools, not what it has handed out of them.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// `call()` allocates `bytes` from the pool. Counts what the pool grows by; where that is above the ceiling `undo()`
/// takes the allocation back, and the answer is kOutOfMemory.
/// Requires: not inside the gate.
cuda::Return AllocateFromPool(unsigned device, cuda::Pool pool, std::uint64_t bytes, cuda::Return (*call)(void*),
                              cuda::Return (*undo)(void*), void* argument);

/// The pool that the current context's device allocates from by default; null: none.
cuda::Pool PoolOf(cuda::Device ordinal);

/// Where its memory is; kNotOurs: on the host, or on a device that is not the tenant's. `otherwise`: nobody has said.
unsigned DeviceOfPool(cuda::Pool pool, unsigned otherwise);

/// Looks again what the pools of a device have reserved: after something was freed, trimmed or waited for.
void MeasurePools(unsigned device);
void MeasureAllPools();
bool HasPools(unsigned device);
/// False: no pool was ever seen. Waits for nobody.
bool MayHavePools();
void NotePool(unsigned device, cuda::Pool pool);
void ForgetPool(cuda::Pool pool);

/// Gives back what the pools and graphs of a device hold free.
void TrimPools(unsigned device);

/// A graph that allocates `bytes` when it is launched exists, or does not any more. The larger of all such promises and
/// what the driver has reserved for graphs is counted.
cuda::Return PromiseGraphMemory(unsigned device, std::uint64_t bytes);
void EndGraphPromise(unsigned device, std::uint64_t bytes);
void MeasureGraphMemory(unsigned device);
bool HasGraphMemory(unsigned device);
/// Of all devices that have some.
void MeasureAllGraphMemory();

void ForgetPools();

}  // namespace divvy::interpose
