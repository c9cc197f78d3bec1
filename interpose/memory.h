// What the program allocated: backed by memory that is mapped at an address of its own (the driver's VMM), so that it
// can be taken away and brought back under the same address; and a record of all else that was counted.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// One mapping: a large allocation, or a chunk that small ones lie in.
struct Region {
  cuda::Pointer address;
  std::uint64_t size;         // As mapped.
  std::uint64_t asked;        // As the program asked; a chunk: 0.
  cuda::Allocation physical;  // While it is on the device.
  cuda::Context context;
  unsigned device;
  cuda::Device ordinal;
  bool is_present;
  void* host;  // Its contents while it is not on the device.
  void* kept;  // Host memory that it had once, or has now; the kernel may take back pages of it while `host` is null.
  Region* previous;
  Region* next;
};

/// Serves cuMemAlloc. kNotSupported: this device cannot map memory; the driver is to be asked.
/// Requires: not inside the gate; a context of the device is current.
cuda::Return AllocateMapped(unsigned device, cuda::Device ordinal, std::uint64_t bytes, cuda::Pointer* pointer);

/// Serves cuMemFree. False: it is not from here. Waits for the device first, as cuMemFree does.
bool FreeMapped(cuda::Pointer pointer, cuda::Return& result);

/// Base, bytes and context of what the program allocated around `pointer`; false: it is not from here.
bool FindMapped(cuda::Pointer pointer, cuda::Pointer& base, std::uint64_t& bytes, cuda::Context& context);
/// The device of what was allocated at `pointer`, mapped or counted; kNotOurs.
unsigned DeviceOfPointer(cuda::Pointer pointer);

/// Another of the driver's devices may read and write what this one has, now and from now on; or may not any more.
void SetPeer(unsigned device, cuda::Device peer, bool is_allowed);

/// All that was allocated in a context, which is about to go.
void FreeContext(cuda::Context context);

/// Gives back what is free in this process's own pools of the device.
void ShrinkOwn(unsigned device);

struct Moved {
  cuda::Return result = cuda::kSuccess;
  std::uint64_t bytes = 0;
  std::uint64_t unpinned = 0;  // Of them, those that went through memory that is not pinned.
  const char* text = "";       // Why not.
};
/// Brings all mapped memory of a device to the host, and counts back what has left as it goes. Where that fails all
/// comes in again, unless others have the room by then: IsAnyAway. Requires: nobody is inside, and none comes in.
Moved Evacuate(unsigned device);
/// Brings it back to where it was; all or nothing. Where the ceiling does not let it, `bytes` is what it needs.
Moved Return(unsigned device);
/// Some of it is on the host, also where a move has failed half-way.
bool IsAnyAway(unsigned device);

/// In the child of a fork; the other two: what the program mapped by itself, and its graphs.
void ForgetMemory();
void ForgetMappings();
void ForgetGraphs();

}  // namespace divvy::interpose
