#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "contexts.h"
#include "driver.h"
#include "gate.h"
#include "pools.h"
#include "records.h"
#include "regions.h"
#include "streams.h"
#include "table.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;  // Allocations of at least this size get their own mapping.
constexpr std::uint64_t kChunk = kMostBlock;

/// The target of a pointer returned to the program.
struct Given {
  Region* region;
  Block* block;  // Null: the whole region.
  std::uint64_t asked;
  cuda::Context context;
};

Arena g_arenas[share::kMaxDevices];
Mutex g_given_mutex;  // May be locked after an arena's mutex, never before it.
Table<Given> g_given;

/// Regions sorted by address, for pointers into them. Guarded by g_given_mutex.
Region** g_sorted = nullptr;
std::size_t g_sorted_count = 0;
std::size_t g_sorted_room = 0;

std::size_t FirstNotBelow(cuda::Pointer address) {
  std::size_t low = 0;
  std::size_t high = g_sorted_count;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (g_sorted[middle]->address < address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool Sort(Region* region) {
  if (g_sorted_count == g_sorted_room) {
    const std::size_t room = g_sorted_room == 0 ? 64 : g_sorted_room * 2;
    auto* const more = static_cast<Region**>(realloc(g_sorted, room * sizeof(Region*)));
    if (more == nullptr) return false;
    g_sorted = more;
    g_sorted_room = room;
  }
  const std::size_t at = FirstNotBelow(region->address);
  memmove(g_sorted + at + 1, g_sorted + at, (g_sorted_count - at) * sizeof(Region*));
  g_sorted[at] = region;
  ++g_sorted_count;
  return true;
}

void Unsort(Region* region) {
  const std::size_t at = FirstNotBelow(region->address);
  if (at == g_sorted_count || g_sorted[at] != region) return;
  --g_sorted_count;
  memmove(g_sorted + at, g_sorted + at + 1, (g_sorted_count - at) * sizeof(Region*));
}

cuda::AllocationProperties PropertiesOf(cuda::Device ordinal) {
  cuda::AllocationProperties properties{};  // No exportable handle, which would make the process immovable.
  properties.type = cuda::kAllocationPinned;
  properties.location = {cuda::kLocationDevice, ordinal};
  return properties;
}

std::uint64_t RoundUp(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

/// Returns 0 if the device cannot map memory.
std::uint64_t GranularityOf(Arena& arena, cuda::Device ordinal) {
  const Locked locked(arena.mutex);
  if (arena.granularity != 0 || arena.is_refused) return arena.is_refused ? 0 : arena.granularity;
  int is_supported = 0;
  std::size_t granularity = 0;
  const cuda::AllocationProperties properties = PropertiesOf(ordinal);
  const char* const wish = getenv("DIVVY_SHARE_MEMORY");
  const bool is_plain = wish != nullptr && strcmp(wish, "plain") == 0;
  if (is_plain ||
      DRIVER(cuDeviceGetAttribute)(&is_supported, cuda::kVirtualMemoryManagementSupported, ordinal) != cuda::kSuccess ||
      is_supported == 0 ||
      DRIVER(cuMemGetAllocationGranularity)(&granularity, &properties, cuda::kGranularityMinimum) != cuda::kSuccess ||
      granularity == 0) {
    arena.is_refused = true;
    SetFlags(share::kPlainMemory);
    return 0;
  }
  arena.granularity = granularity;
  return granularity;
}

/// Creates a mapping that is already counted. Returns null with the reason in `result`; nothing remains then.
Region* MakeRegion(Arena& arena, unsigned device, cuda::Device ordinal, std::uint64_t size, std::uint64_t asked,
                   cuda::Return& result) {
  auto* const region = static_cast<Region*>(calloc(1, sizeof(Region)));
  result = region == nullptr ? cuda::kOutOfMemory : cuda::kSuccess;
  if (region == nullptr) return nullptr;
  region->size = size;
  region->asked = asked;
  region->device = device;
  region->ordinal = ordinal;
  DRIVER(cuCtxGetCurrent)(&region->context);
  result = DRIVER(cuMemAddressReserve)(&region->address, size, 0, 0, 0);
  if (result == cuda::kSuccess) {
    result = Back(*region, arena);
    if (result == cuda::kSuccess) return region;
    DRIVER(cuMemAddressFree)(region->address, size);
  }
  free(region);
  return nullptr;
}

/// Requires the arena's mutex and g_given_mutex.
bool Enter(Arena& arena, Region* region) {
  if (!Sort(region)) return false;
  region->previous = nullptr;
  region->next = arena.first;
  if (region->next != nullptr) region->next->previous = region;
  arena.first = region;
  return true;
}

/// Requires the same mutexes. Removes the region from all lists; it stays mapped.
void Leave(Arena& arena, Region* region) {
  Unsort(region);
  (region->previous != nullptr ? region->previous->next : arena.first) = region->next;
  if (region->next != nullptr) region->next->previous = region->previous;
}

/// Unmaps the region, frees its address and gives its bytes back.
cuda::Return Destroy(Region* region) {
  const cuda::Return result = region->is_present ? Unback(*region) : cuda::kSuccess;
  if (result == cuda::kSuccess) {
    DRIVER(cuMemAddressFree)(region->address, region->size);
    GiveBack(region->device, region->size);
  }
  FreeHost(*region);
  free(region);
  return result;
}

bool TakeSmall(Arena& arena, std::uint64_t bytes, cuda::Pointer* pointer) {
  cuda::Context context = nullptr;
  DRIVER(cuCtxGetCurrent)(&context);
  const Locked locked(arena.mutex);
  Block* const block = arena.blocks.Take(bytes);
  if (block == nullptr) return false;
  const Locked given(g_given_mutex);
  if (!g_given.Put(block->address, {static_cast<Region*>(block->chunk), block, bytes, context})) {
    arena.blocks.Free(block);
    return false;
  }
  *pointer = block->address;
  return true;
}

cuda::Return AllocateLarge(Arena& arena, unsigned device, cuda::Device ordinal, std::uint64_t size, std::uint64_t asked,
                           cuda::Pointer* pointer) {
  const Inside inside(Touch::kOther, device);
  cuda::Return result = cuda::kSuccess;
  Region* const region = MakeRegion(arena, device, ordinal, size, asked, result);
  if (region == nullptr) return result;
  const Locked locked(arena.mutex);
  const Locked given(g_given_mutex);
  const bool is_entered = Enter(arena, region);
  if (!is_entered || !g_given.Put(region->address, {region, nullptr, asked, region->context})) {
    if (is_entered) Leave(arena, region);
    Unback(*region);
    DRIVER(cuMemAddressFree)(region->address, region->size);
    free(region);
    return cuda::kOutOfMemory;
  }
  *pointer = region->address;
  return cuda::kSuccess;
}

cuda::Return AddChunk(Arena& arena, unsigned device, cuda::Device ordinal, std::uint64_t size) {
  const Inside inside(Touch::kOther, device);
  cuda::Return result = cuda::kSuccess;
  Region* const region = MakeRegion(arena, device, ordinal, size, 0, result);
  if (region == nullptr) return result;
  const Locked locked(arena.mutex);
  const Locked given(g_given_mutex);
  const bool is_entered = Enter(arena, region);
  if (is_entered && arena.blocks.AddChunk(region->address, region->size, region) != nullptr) return cuda::kSuccess;
  if (is_entered) Leave(arena, region);
  Unback(*region);
  DRIVER(cuMemAddressFree)(region->address, region->size);
  free(region);
  return cuda::kOutOfMemory;
}

cuda::Return AllocateSmall(Arena& arena, unsigned device, cuda::Device ordinal, std::uint64_t size, std::uint64_t bytes,
                           cuda::Pointer* pointer) {
  for (;;) {  // Repeats because another thread may take the space of a new chunk.
    {
      const Inside inside(Touch::kOther, device);
      if (TakeSmall(arena, bytes, pointer)) return cuda::kSuccess;
    }
    cuda::Return result = Take(device, size);
    if (result != cuda::kSuccess) return result;
    result = AddChunk(arena, device, ordinal, size);
    if (result != cuda::kSuccess) {
      GiveBack(device, size);
      return result;
    }
  }
}

/// Removes the pointer from the tables. `region`: the region that must be destroyed as a result, or null.
bool TakeOut(cuda::Pointer pointer, unsigned device, Region*& region) {
  Arena& arena = g_arenas[device];
  const Locked locked(arena.mutex);
  const Locked given(g_given_mutex);
  const Given* const found = g_given.Find(pointer);
  if (found == nullptr) return false;
  region = found->region;
  if (found->block != nullptr) region = static_cast<Region*>(arena.blocks.Free(found->block));
  g_given.Remove(pointer);
  if (region != nullptr) Leave(arena, region);
  return true;
}

}  // namespace

Arena& ArenaOf(unsigned device) { return g_arenas[device]; }

cuda::Return Back(Region& region, const Arena& arena) {
  const cuda::AllocationProperties properties = PropertiesOf(region.ordinal);
  cuda::Return result = DRIVER(cuMemCreate)(&region.physical, region.size, &properties, 0);
  if (result != cuda::kSuccess) return result;
  result = DRIVER(cuMemMap)(region.address, region.size, 0, region.physical, 0);
  if (result != cuda::kSuccess) {
    DRIVER(cuMemRelease)(region.physical);
    return result;
  }
  cuda::AccessRights rights[64];
  std::size_t count = 0;
  for (int ordinal = 0; ordinal < 64; ++ordinal) {
    if (ordinal != region.ordinal && (arena.peers >> ordinal & 1) == 0) continue;
    rights[count++] = {{cuda::kLocationDevice, ordinal}, cuda::kAccessReadWrite};
  }
  result = DRIVER(cuMemSetAccess)(region.address, region.size, rights, count);
  if (result != cuda::kSuccess) {
    DRIVER(cuMemUnmap)(region.address, region.size);
    DRIVER(cuMemRelease)(region.physical);
    return result;
  }
  region.is_present = true;
  return cuda::kSuccess;
}

cuda::Return Unback(Region& region) {
  const cuda::Return result = DRIVER(cuMemUnmap)(region.address, region.size);
  if (result != cuda::kSuccess) return result;
  region.is_present = false;
  return DRIVER(cuMemRelease)(region.physical);
}

cuda::Return AllocateMapped(unsigned device, cuda::Device ordinal, std::uint64_t bytes, cuda::Pointer* pointer) {
  Arena& arena = g_arenas[device];
  const std::uint64_t granularity = GranularityOf(arena, ordinal);
  if (granularity == 0) return cuda::kNotSupported;
  if (bytes > ~std::uint64_t{0} - granularity) return cuda::kOutOfMemory;
  NoteCurrentContext();
  if (bytes < kLarge && granularity <= kChunk) {
    return AllocateSmall(arena, device, ordinal, RoundUp(kChunk, granularity), bytes, pointer);
  }
  const std::uint64_t size = RoundUp(bytes, granularity);
  cuda::Return result = Take(device, size);
  if (result != cuda::kSuccess) return result;
  result = AllocateLarge(arena, device, ordinal, size, bytes, pointer);
  if (result != cuda::kSuccess) GiveBack(device, size);
  return result;
}

bool FreeMapped(cuda::Pointer pointer, cuda::Return& result) {
  unsigned device = kNotOurs;
  cuda::Context context = nullptr;
  {
    const Locked given(g_given_mutex);
    const Given* const found = g_given.Find(pointer);
    if (found == nullptr) return false;
    device = found->region->device;
    context = found->context;
  }
  const Inside inside(Touch::kOther, device);
  {
    // The program expects cuMemFree to wait for pending uses of the memory; unmapping does not.
    const ContextOf current(context);
    result = current.is_current() ? SynchroniseCurrentContext() : cuda::kSuccess;
  }
  if (result == cuda::kNotReady) result = cuda::kStreamCaptureUnsupported;
  // During a stream capture, the driver's cuMemFree fails with the same errors.
  if (result >= cuda::kStreamCaptureUnsupported && result < cuda::kTimeout) return true;
  Region* region = nullptr;
  if (!TakeOut(pointer, device, region)) {
    result = cuda::kInvalidValue;  // Double free: another thread was faster.
    return true;
  }
  if (region == nullptr) return true;
  const cuda::Return gone = Destroy(region);
  if (result == cuda::kSuccess) result = gone;
  return true;
}

bool FindMapped(cuda::Pointer pointer, cuda::Pointer& base, std::uint64_t& bytes, cuda::Context& context) {
  const Locked given(g_given_mutex);
  std::size_t at = FirstNotBelow(pointer);
  if (at == g_sorted_count || g_sorted[at]->address != pointer) {
    if (at == 0) return false;
    --at;
  }
  const Region& region = *g_sorted[at];
  if (pointer >= region.address + region.size) return false;
  if (region.asked != 0) {
    base = region.address;
    bytes = region.asked;
    context = region.context;
    return pointer < base + bytes;
  }
  for (cuda::Pointer unit = pointer / kBlockUnit * kBlockUnit; unit >= region.address; unit -= kBlockUnit) {
    const Given* const found = g_given.Find(unit);
    if (found == nullptr) continue;
    base = unit;
    bytes = found->asked;
    context = found->context;
    return pointer < base + bytes;
  }
  return false;
}

unsigned DeviceOfPointer(cuda::Pointer pointer) {
  {
    const Locked given(g_given_mutex);
    const Given* const found = g_given.Find(pointer);
    if (found != nullptr) return found->region->device;
  }
  return DeviceOfRecord(kPointers, pointer);
}

void SetPeer(unsigned device, cuda::Device peer, bool is_allowed) {
  if (device >= share::kMaxDevices || peer < 0 || peer >= 64) return;
  Arena& arena = g_arenas[device];
  const Locked locked(arena.mutex);
  const std::uint64_t bit = std::uint64_t{1} << peer;
  arena.peers = is_allowed ? arena.peers | bit : arena.peers & ~bit;
  const cuda::AccessRights rights = {{cuda::kLocationDevice, peer},
                                     is_allowed ? cuda::kAccessReadWrite : cuda::kAccessNone};
  for (Region* region = arena.first; region != nullptr; region = region->next) {
    if (region->is_present) DRIVER(cuMemSetAccess)(region->address, region->size, &rights, 1);
  }
}

void FreeContext(cuda::Context context) {
  KeyList<cuda::Pointer> pointers;
  do {  // Repeats only if host memory did not suffice for all keys at once.
    {
      const Locked given(g_given_mutex);
      pointers.Gather(g_given, [&](const Given& record) { return record.context == context; });
    }
    for (const cuda::Pointer pointer : pointers) {
      unsigned device = kNotOurs;
      {
        const Locked given(g_given_mutex);
        const Given* const found = g_given.Find(pointer);
        if (found != nullptr && found->context == context) device = found->region->device;
      }
      Region* region = nullptr;
      if (device != kNotOurs && TakeOut(pointer, device, region) && region != nullptr) Destroy(region);
    }
  } while (pointers.is_partial());
  DropRecordsOf(context);
}

void ShrinkOwn(unsigned device) {
  // This library keeps no empty chunks, so only the driver's pools can shrink.
  TrimPools(device);
}

void ForgetMemory() {
  // State that another thread was changing during the fork is abandoned: it is unusable in a child.
  for (Arena& arena : g_arenas) {
    arena.mutex.Renew();
    arena.first = nullptr;
    arena.blocks.Abandon();
    arena.granularity = 0;
    arena.is_refused = false;
    arena.peers = 0;
  }
  g_given_mutex.Renew();
  g_given.Abandon();
  g_sorted = nullptr;
  g_sorted_count = g_sorted_room = 0;
  ForgetRecords();
  ForgetPools();
}

}  // namespace divvy::interpose
