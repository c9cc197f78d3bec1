// Memory in the driver's pools: cuMemAllocAsync, explicit pools and graphs. It stays with the driver, which alone knows
// when stream order makes it free again. Counted is what the driver reserved for the pools, not what is allocated from
// them.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// `call()` allocates `bytes` from the pool. Counts the pool's growth. If that exceeds the ceiling, `undo()` frees the
/// allocation and the result is kOutOfMemory. Requires: not inside the gate.
cuda::Return AllocateFromPool(unsigned device, cuda::Pool pool, std::uint64_t bytes, cuda::Return (*call)(void*),
                              cuda::Return (*undo)(void*), void* argument);

/// Returns the default allocation pool of the device, or null.
cuda::Pool PoolOf(cuda::Device ordinal);

/// Returns the device of a pool's memory; kNotOurs for host memory or a device that is not the tenant's. `otherwise`:
/// the result if it is unknown.
unsigned DeviceOfPool(cuda::Pool pool, unsigned otherwise);

/// Updates the reserved size of a device's pools; call this after memory was freed, trimmed or waited for.
void MeasurePools(unsigned device);
void MeasureAllPools();
bool HasPools(unsigned device);
/// Returns false if no pool was ever seen. Does not block.
bool MayHavePools();
void NotePool(unsigned device, cuda::Pool pool);
void ForgetPool(cuda::Pool pool);

/// Frees unused memory of a device's pools and graphs.
void TrimPools(unsigned device);

/// Registers or removes a graph that allocates `bytes` when launched. Counted is the larger of the sum of all
/// registered graphs and the driver's reservation for graphs.
cuda::Return PromiseGraphMemory(unsigned device, std::uint64_t bytes);
void EndGraphPromise(unsigned device, std::uint64_t bytes);
void MeasureGraphMemory(unsigned device);
bool HasGraphMemory(unsigned device);
/// Updates the count of all devices with graph memory.
void MeasureAllGraphMemory();

void ForgetPools();

}  // namespace divvy::interpose
