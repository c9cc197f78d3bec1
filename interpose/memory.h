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

/// Implements cuMemFree. Returns false for memory that was not allocated here. Like cuMemFree, waits for the device
/// first.
bool FreeMapped(cuda::Pointer pointer, cuda::Return& result);

/// Finds base, size and context of the allocation that contains `pointer`. Returns false for memory not allocated here.
bool FindMapped(cuda::Pointer pointer, cuda::Pointer& base, std::uint64_t& bytes, cuda::Context& context);
/// Returns the device of an allocation, mapped or counted, or kNotOurs.
unsigned DeviceOfPointer(cuda::Pointer pointer);

/// Allows or denies a peer device access to this device's memory, present and future.
void SetPeer(unsigned device, cuda::Device peer, bool is_allowed);

/// Frees all allocations of a context that is about to be destroyed.
void FreeContext(cuda::Context context);

/// Frees unused memory in this process's own pools of the device.
void ShrinkOwn(unsigned device);

struct Moved {
  cuda::Return result = cuda::kSuccess;
  std::uint64_t bytes = 0;
  std::uint64_t unpinned = 0;  // The part of `bytes` that was copied through unpinned memory.
  const char* text = "";       // The reason for a failure.
};
/// Moves all mapped memory of a device to the host, releasing its count progressively. After a failure everything is
/// restored, unless other tenants have taken the room meanwhile; see IsAnyAway. Requires that no thread is inside the
/// gate and none can enter.
Moved Evacuate(unsigned device);
/// Restores the memory to its addresses, all or nothing. If the ceiling is too low, `bytes` is the amount needed.
Moved Return(unsigned device);
/// Returns true if some memory is on the host, also after a move that failed half-way.
bool IsAnyAway(unsigned device);

/// Call these in the child of a fork. The other two drop the program's own mappings and its graphs.
void ForgetMemory();
void ForgetMappings();
void ForgetGraphs();

}  // namespace divvy::interpose
