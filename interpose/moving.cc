// Evacuate and Return: the memory of a device to the host and back, under the same addresses. The copies go over
// several streams; the host memory is made for each request, pinned where the driver gives that.
#include <stdlib.h>

#include "contexts.h"
#include "driver.h"
#include "regions.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr int kStreams = 4;
constexpr std::uint64_t kPiece = std::uint64_t{64} << 20;
/// So much leaves at a time: its host memory is made and filled, then it is unmapped and counted back.
constexpr std::uint64_t kBatch = std::uint64_t{1} << 30;

class Streams {
 public:
  Streams() {
    for (cuda::Stream& stream : streams_) {
      if (DRIVER(cuStreamCreate)(&stream, cuda::kStreamNonBlocking) != cuda::kSuccess) break;
      ++count_;
    }
  }
  ~Streams() {
    for (int i = 0; i < count_; ++i) DRIVER(cuStreamDestroy_v2)(streams_[i]);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  bool is_open() const { return count_ > 0; }
  cuda::Stream Next() { return streams_[static_cast<unsigned>(turn_++) % static_cast<unsigned>(count_)]; }
  cuda::Return Wait() {
    cuda::Return first = cuda::kSuccess;
    for (int i = 0; i < count_; ++i) {
      const cuda::Return result = DRIVER(cuStreamSynchronize)(streams_[i]);
      if (first == cuda::kSuccess) first = result;
    }
    return first;
  }

 private:
  cuda::Stream streams_[kStreams] = {};
  int count_ = 0;
  int turn_ = 0;
};

bool MakeHost(Region& region) {
  region.is_host_pinned = DRIVER(cuMemHostAlloc)(&region.host, region.size, 0) == cuda::kSuccess;
  if (!region.is_host_pinned) region.host = malloc(region.size);
  return region.host != nullptr;
}

void FreeHost(Region& region) {
  if (region.host == nullptr) return;
  if (region.is_host_pinned) {
    DRIVER(cuMemFreeHost)(region.host);
  } else {
    free(region.host);
  }
  region.host = nullptr;
}

cuda::Return Copy(Region& region, Streams& streams, bool is_out) {
  char* const host = static_cast<char*>(region.host);
  for (std::uint64_t at = 0; at < region.size; at += kPiece) {
    const std::uint64_t size = region.size - at < kPiece ? region.size - at : kPiece;
    const cuda::Return result =
        is_out ? DRIVER(cuMemcpyDtoHAsync_v2)(host + at, region.address + at, size, streams.Next())
               : DRIVER(cuMemcpyHtoDAsync_v2)(region.address + at, host + at, size, streams.Next());
    if (result != cuda::kSuccess) return result;
  }
  return cuda::kSuccess;
}

Moved Failed(cuda::Return result, const char* text) {
  Moved moved;
  moved.result = result == cuda::kSuccess ? cuda::kUnknown : result;
  moved.text = text;
  return moved;
}

/// The regions from `first` until before `end`, in host memory as well, of those that lie on the device: so many as
/// make a batch. Undoes itself.
Moved CopyOut(Region* first, Region*& end, Streams& streams) {
  Moved moved;
  const char* why = nullptr;
  for (end = first; end != nullptr && moved.bytes < kBatch && why == nullptr; end = end->next) {
    if (!end->is_present) continue;
    if (!MakeHost(*end)) {
      moved.result = cuda::kOutOfMemory;
      why = "the host has no room for the memory of the device";
      break;
    }
    moved.bytes += end->size;
    if (!end->is_host_pinned) moved.unpinned += end->size;
    moved.result = Copy(*end, streams, true);
    if (moved.result != cuda::kSuccess) why = "copying to the host failed";
  }
  const cuda::Return waited = streams.Wait();
  if (why == nullptr && waited != cuda::kSuccess) {
    moved.result = waited;
    why = "copying to the host failed";
  }
  if (why == nullptr) return moved;
  for (Region* region = first; region != end; region = region->next) {
    if (region->is_present) FreeHost(*region);
  }
  return Failed(moved.result, why);
}

cuda::Return CopyIn(Arena& arena) {
  Streams streams;
  if (!streams.is_open()) return cuda::kOutOfMemory;
  cuda::Return result = cuda::kSuccess;
  for (Region* region = arena.first; region != nullptr && result == cuda::kSuccess; region = region->next) {
    if (region->host != nullptr) result = Copy(*region, streams, false);
  }
  const cuda::Return waited = streams.Wait();
  return result == cuda::kSuccess ? waited : result;
}

}  // namespace

namespace {

bool HasAway(const Arena& arena) {
  for (const Region* region = arena.first; region != nullptr; region = region->next) {
    if (!region->is_present) return true;
  }
  return false;
}

/// Those that are off the device; all or nothing. Requires: they are on the host, and no others.
Moved BringIn(Arena& arena, unsigned device) {
  Moved moved;
  for (const Region* region = arena.first; region != nullptr; region = region->next) {
    if (!region->is_present) moved.bytes += region->size;
  }
  if (moved.bytes == 0) return moved;
  if (!TakeAtOnce(device, moved.bytes)) {
    Moved failed = Failed(cuda::kOutOfMemory, "the ceiling is lower than what was taken out");
    failed.bytes = moved.bytes;  // So much it needs: the keeper may not have known.
    return failed;
  }
  cuda::Return result = cuda::kSuccess;
  for (Region* region = arena.first; region != nullptr && result == cuda::kSuccess; region = region->next) {
    if (!region->is_present) result = Back(*region, arena);
  }
  if (result == cuda::kSuccess) result = CopyIn(arena);
  for (Region* region = arena.first; region != nullptr; region = region->next) {
    if (region->host == nullptr) continue;
    if (result == cuda::kSuccess) {
      FreeHost(*region);
    } else if (region->is_present) {
      Unback(*region);  // The contents are still on the host.
    }
  }
  if (result == cuda::kSuccess) return moved;
  GiveBack(device, moved.bytes);
  return Failed(result, "the device has no room for it, or copying failed; all is on the host as before");
}

/// Takes what is on the host as well off the device, and counts it back. What could not be is on the device alone.
cuda::Return UnbackAll(Region* first, const Region* end, unsigned device) {
  cuda::Return result = cuda::kSuccess;
  std::uint64_t bytes = 0;
  for (Region* region = first; region != end; region = region->next) {
    if (!region->is_present) continue;
    const cuda::Return one = result == cuda::kSuccess ? Unback(*region) : result;
    if (!region->is_present) {
      bytes += region->size;  // It is off, whatever else the driver has to say.
      continue;
    }
    result = one;
    FreeHost(*region);
  }
  GiveBack(device, bytes);
  return result;
}

}  // namespace

// In batches: what has left is others' before the rest has, so that who is repaid waits for no more than it needs.
Moved Evacuate(unsigned device) {
  Arena& arena = ArenaOf(device);
  const Locked locked(arena.mutex);
  if (arena.first == nullptr) return {};
  const ContextOf current(device);
  if (!current.is_current()) return Failed(cuda::kInvalidContext, "the process has no context on the device any more");
  const RelaxedCapture relaxed;
  Streams streams;
  if (!streams.is_open()) return Failed(cuda::kOutOfMemory, "no stream could be made for the copies");
  Moved moved;
  Region* end = nullptr;
  for (Region* first = arena.first; first != nullptr; first = end) {
    Moved batch = CopyOut(first, end, streams);
    if (batch.result == cuda::kSuccess) {
      batch.result = UnbackAll(first, end, device);
      if (batch.result != cuda::kSuccess) batch.text = "unmapping failed; all is as it was";
    }
    if (batch.result != cuda::kSuccess) {
      const Moved undone = BringIn(arena, device);
      if (undone.result == cuda::kSuccess) return Failed(batch.result, batch.text);
      return Failed(batch.result,
                    "a part of it is on the host, and had no room to come back when the rest could not leave");
    }
    moved.bytes += batch.bytes;
    moved.unpinned += batch.unpinned;
  }
  return moved;
}

bool IsAnyAway(unsigned device) {
  Arena& arena = ArenaOf(device);
  const Locked locked(arena.mutex);
  return HasAway(arena);
}

Moved Return(unsigned device) {
  Arena& arena = ArenaOf(device);
  const Locked locked(arena.mutex);
  if (!HasAway(arena)) return {};
  const ContextOf current(device);
  if (!current.is_current()) return Failed(cuda::kInvalidContext, "the process has no context on the device any more");
  const RelaxedCapture relaxed;
  return BringIn(arena, device);
}

}  // namespace divvy::interpose
