// The mapped memory of one device, allocated by memory.cc and moved by moving.cc.
#pragma once

#include "blocks.h"
#include "memory.h"
#include "platform/gpu/tenant_shm.h"
#include "sync.h"

namespace divvy::interpose {

/// Guarded by its mutex, which is not held during a call that waits for the keeper.
struct Arena {
  Mutex mutex;
  Region* first = nullptr;
  Blocks blocks;
  std::uint64_t granularity = 0;  // 0: not queried yet.
  bool is_refused = false;        // The device cannot map memory.
  std::uint64_t peers = 0;        // One bit per driver device with access to this memory.
};

Arena& ArenaOf(unsigned device);

/// Maps new physical GPU memory at the region's address.
cuda::Return Back(Region& region, const Arena& arena);
/// Unmaps and frees the region's physical GPU memory; its address stays reserved.
cuda::Return Unback(Region& region);
/// Frees the host memory to which the region was copied, if it has any.
void FreeHost(Region& region);

}  // namespace divvy::interpose
