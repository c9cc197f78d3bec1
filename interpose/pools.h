// Memory in the driver's pools: cuMemAllocAsync, explicit pools and graphs. It stays with the driver, which alone knows
// when stream order makes it free again. Counted is what the driver reserved for the pools, not what is allocated from
// them.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// Allocates `bytes` from the pool by calling `call(argument)`, and counts the memory by which the pool grew. If the
/// tenant may not use that much, `undo(argument)` frees the allocation and the result is kOutOfMemory. Requires: the
/// caller is not inside the gate (gate.h).
cuda::Return AllocateFromPool(unsigned device, cuda::Pool pool, std::uint64_t bytes, cuda::Return (*call)(void*),
                              cuda::Return (*undo)(void*), void* argument);

/// Returns the default allocation pool of the device, or null.
cuda::Pool PoolOf(cuda::Device ordinal);

/// Returns the device of a pool's memory; kNotOurs for host memory or a device that is not the tenant's. `otherwise`:
/// the result if it is unknown.
unsigned DeviceOfPool(cuda::Pool pool, unsigned otherwise);

/// Counts how much memory the driver has reserved for the device's pools now. Call this after memory of a pool was
/// freed, trimmed or waited for.
void MeasurePools(unsigned device);
void MeasureAllPools();
bool HasPools(unsigned device);
/// Returns true if this process has used a memory pool at some time. Does not block.
bool MayHavePools();
void NotePool(unsigned device, cuda::Pool pool);
void ForgetPool(cuda::Pool pool);

/// Frees unused memory of a device's pools and graphs.
void TrimPools(unsigned device);

/// Registers a CUDA graph that allocates `bytes` when launched; EndGraphPromise removes it. The memory counted for
/// graphs is the sum of all registered graphs, or what the driver has reserved for graphs if that is more.
cuda::Return PromiseGraphMemory(unsigned device, std::uint64_t bytes);
void EndGraphPromise(unsigned device, std::uint64_t bytes);
void MeasureGraphMemory(unsigned device);
bool HasGraphMemory(unsigned device);
/// Counts the memory for CUDA graphs again, on all devices that have some.
void MeasureAllGraphMemory();

void ForgetPools();

}  // namespace divvy::interpose
