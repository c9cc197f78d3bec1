// The mapped memory of one device, as memory.cc allocates it and moving.cc moves it.
#pragma once

#include "blocks.h"
#include "memory.h"
#include "platform/gpu/tenant_page.h"
#include "sync.h"

namespace divvy::interpose {

/// Guarded by its mutex, which is held for no call that waits for the keeper.
struct Arena {
  Mutex mutex;
  Region* first = nullptr;
  Blocks blocks;
  std::uint64_t granularity = 0;  // 0: not asked yet.
  bool is_refused = false;        // The device cannot map memory.
  std::uint64_t peers = 0;        // Bit for each of the driver's devices that may touch it as well.
};

Arena& ArenaOf(unsigned device);

/// New physical memory at the region's address.
cuda::Return Back(Region& region, const Arena& arena);
/// Takes it away; the address stays reserved.
cuda::Return Unback(Region& region);
/// Unmaps the region's host memory, if it has any.
void FreeHost(Region& region);

}  // namespace divvy::interpose
