// The program's allocations. Memory is mapped at an address of its own (the driver's VMM), so that it can be removed
// and restored at the same address. Other counted memory is recorded.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// One mapping: a large allocation, or a chunk for small ones.
struct Region {
  cuda::Pointer address;
  std::uint64_t size;         // Mapped bytes.
  std::uint64_t asked;        // Bytes that the program requested; 0 for a chunk.
  cuda::Allocation physical;  // Valid while it is on the device.
  cuda::Context context;
  unsigned device;
  cuda::Device ordinal;
  bool is_present;
  void* host;  // Its contents while it is off the device.
  void* kept;  // Host memory that it uses or used earlier. The kernel may reclaim its pages while `host` is null.
  Region* previous;
  Region* next;
};

/// Implements cuMemAlloc. Returns kNotSupported if this device cannot map memory; then call the driver instead.
/// Requires: not inside the gate; a context of the device is current.
cuda::Return AllocateMapped(unsigned device, cuda::Device ordinal, std::uint64_t bytes, cuda::Pointer* pointer);

/// Implements cuMemFree: waits for the device, then frees the memory. Returns false if AllocateMapped did not allocate
/// it.
bool FreeMapped(cuda::Pointer pointer, cuda::Return& result);

/// Finds base, size and context of the allocation that contains `pointer`. Returns false if AllocateMapped did not
/// allocate it.
bool FindMapped(cuda::Pointer pointer, cuda::Pointer& base, std::uint64_t& bytes, cuda::Context& context);
/// Returns the tenant's number of the device that an allocation is on; kNotOurs if this library does not know the
/// allocation.
unsigned DeviceOfPointer(cuda::Pointer pointer);

/// Allows or denies a peer device access to this device's memory, present and future.
void SetPeer(unsigned device, cuda::Device peer, bool is_allowed);

/// Frees all allocations of a context that is about to be destroyed.
void FreeContext(cuda::Context context);

/// Frees memory that this process has on the device but does not use: unused parts of the driver's pools and of graphs.
void ShrinkOwn(unsigned device);

struct Moved {
  cuda::Return result = cuda::kSuccess;
  std::uint64_t bytes = 0;
  std::uint64_t unpinned = 0;  // The part of `bytes` that was copied through unpinned memory.
  const char* text = "";       // The reason for a failure.
};
/// Moves all mapped memory of a device to the host. The tenant's count of used memory decreases step by step meanwhile.
/// After a failure all memory is moved back, unless other tenants have taken the room; see IsAnyAway. Requires: no
/// thread is in a driver call for the device, and none can begin one.
Moved Evacuate(unsigned device);
/// Moves the memory of Evacuate back from the host to its addresses, all or nothing. If the tenant may not use that
/// much now, `bytes` of the result is the amount needed.
Moved Return(unsigned device);
/// Returns true if some memory of the device is on the host now, be it after Evacuate or after a move that failed
/// half-way.
bool IsAnyAway(unsigned device);

/// Call these three functions in the child of a fork. They forget this library's records of device memory, of the
/// program's own mappings, and of its graphs.
void ForgetMemory();
void ForgetMappings();
void ForgetGraphs();

}  // namespace divvy::interpose
