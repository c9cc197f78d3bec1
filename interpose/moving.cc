// Evacuate and Return: copy a device's memory to the host and back to the same addresses. Several threads copy, each
// through two pinned buffers: while the bus fills one, the other is copied to ordinary memory. Pinning the ordinary
// memory itself would take longer than copying. Moreover, ordinary memory counts in the job's cgroup and can be swapped
// out while the job is parked.
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "contexts.h"
#include "driver.h"
#include "gate.h"
#include "regions.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr unsigned kMostLanes = 8;
constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;  // Small enough to stay in the processor's cache.
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr std::uint64_t kPage = 4096;
/// Memory leaves in batches of this size: its host memory is allocated and filled, then it is unmapped and its bytes
/// are given back.
constexpr std::uint64_t kBatch = std::uint64_t{1} << 30;

/// Maps `bytes` of host memory that reads as zeros and uses a page only when it is written. Aligned to huge pages and
/// not inherited by a fork. Returns null if the address space is exhausted.
char* MapHost(std::uint64_t bytes) {
  void* const all = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  const std::uint64_t before = (kHugePage - reinterpret_cast<std::uint64_t>(all) % kHugePage) % kHugePage;
  char* const host = static_cast<char*>(all) + before;
  if (before != 0) munmap(all, before);
  munmap(host + bytes, kHugePage - before);
  madvise(host, bytes, MADV_DONTFORK);
  return host;
}

bool MakeHost(Region& region) {
  region.host = region.kept != nullptr ? region.kept : MapHost(region.size);
  return region.host != nullptr;
}

/// Keeps host memory after its contents have returned. Filling newly allocated memory takes twice as long, so it is
/// reused for the next move, unless the kernel reclaims its pages first.
void KeepHost(Region& region) {
  if (madvise(region.host, region.size, MADV_FREE) != 0) return FreeHost(region);
  region.kept = region.host;
  region.host = nullptr;
}

bool IsZero(const char* page) { return page[0] == 0 && memcmp(page, page + 1, kPage - 1) == 0; }

/// Returns the offset of the first zero page from `at` on, or `bytes` if there is none.
std::uint64_t NextZeroPage(const char* memory, std::uint64_t at, std::uint64_t bytes) {
  while (at < bytes && !IsZero(memory + at)) at += kPage;
  return at;
}

/// Copies to memory from MakeHost. New memory is all zeros; kept memory has its old contents, or zeros in pages that
/// the kernel reclaimed. Zero pages that are already zero are not written and so use no memory. Requires: `bytes` is a
/// multiple of the page size.
void CopyToHost(char* to, const char* from, std::uint64_t bytes, bool is_kept) {
  for (std::uint64_t at = 0; at < bytes;) {
    const std::uint64_t end = NextZeroPage(from, at, bytes);
    memcpy(to + at, from + at, end - at);
    if (is_kept && end < bytes && !IsZero(to + end)) memset(to + end, 0, kPage);
    at = end + kPage;
  }
}

unsigned CpusOfThread() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? static_cast<unsigned>(CPU_COUNT(&cpus)) : 1;
}

/// Copies the regions of one device to their host memory or back, on this thread and additional ones.
class Copier {
 public:
  /// Prepares for copying about `bytes` in total. Requires: a context of the device is current.
  Copier(unsigned device, std::uint64_t bytes) : device_(device) {
    const std::uint64_t pieces = (bytes + kPiece - 1) / kPiece;
    unsigned most = CpusOfThread() < kMostLanes ? CpusOfThread() : kMostLanes;
    if (pieces < most) most = static_cast<unsigned>(pieces);
    buffers_ = MapHost(most * 2 * kPiece);
    if (buffers_ == nullptr) return;
    buffer_bytes_ = most * 2 * kPiece;
    is_pinned_ = DRIVER(cuMemHostRegister_v2)(buffers_, buffer_bytes_, 0) == cuda::kSuccess;
    for (; count_ < most; ++count_) {
      Lane& lane = lanes_[count_];
      lane.copier = this;
      lane.buffers[0] = buffers_ + count_ * 2 * kPiece;
      lane.buffers[1] = lane.buffers[0] + kPiece;
      if (DRIVER(cuStreamCreate)(&lane.streams[0], cuda::kStreamNonBlocking) != cuda::kSuccess) return;
      if (DRIVER(cuStreamCreate)(&lane.streams[1], cuda::kStreamNonBlocking) == cuda::kSuccess) continue;
      DRIVER(cuStreamDestroy_v2)(lane.streams[0]);
      return;
    }
  }
  ~Copier() {
    for (unsigned i = 0; i < count_; ++i) {
      for (const cuda::Stream stream : lanes_[i].streams) DRIVER(cuStreamDestroy_v2)(stream);
    }
    if (is_pinned_) DRIVER(cuMemHostUnregister)(buffers_);
    if (buffers_ != nullptr) munmap(buffers_, buffer_bytes_);
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  bool is_open() const { return count_ > 0; }
  bool is_pinned() const { return is_pinned_; }

  /// Copies the regions in [first, end) that have host memory and are on the device. Returns the first error.
  cuda::Return CopyOut(Region* first, const Region* end) { return Copy(first, end, &Copier::RunOut); }
  cuda::Return CopyIn(Region* first, const Region* end) { return Copy(first, end, &Copier::RunIn); }

 private:
  struct Lane {
    Copier* copier;
    cuda::Stream streams[2];
    char* buffers[2];
    pthread_t thread;
  };
  struct Piece {
    cuda::Pointer device;
    char* host;
    std::uint64_t size;
    std::uint64_t left;  // Bytes of its region from this piece to the end.
    bool is_first;       // It is the first piece of its region.
    bool is_kept;        // Its host memory was kept from an earlier move.
  };
  using Run = void (Copier::*)(Lane&);

  cuda::Return Copy(Region* first, const Region* end, Run run) {
    at_ = first;
    end_ = end;
    offset_ = 0;
    result_ = cuda::kSuccess;
    run_ = run;
    unsigned started = 1;
    {
      const SignalsBlocked quiet;  // The threads inherit it.
      while (started < count_ && pthread_create(&lanes_[started].thread, nullptr, &RunThread, &lanes_[started]) == 0) {
        ++started;
      }
    }
    (this->*run)(lanes_[0]);
    while (--started > 0) pthread_join(lanes_[started].thread, nullptr);
    return result_;
  }

  static void* RunThread(void* argument) {
    BeOwnThread();
    Lane& lane = *static_cast<Lane*>(argument);
    Copier& copier = *lane.copier;
    const ContextOf current(copier.device_);
    const RelaxedCapture relaxed;
    if (current.is_current()) (copier.*copier.run_)(lane);
    return nullptr;
  }

  void RunOut(Lane& lane) {
    Piece pieces[2];
    bool is_under_way[2] = {};
    for (unsigned turn = 0;; turn ^= 1) {
      is_under_way[turn] = Take(pieces[turn]);
      if (is_under_way[turn]) {
        Note(DRIVER(cuMemcpyDtoHAsync_v2)(lane.buffers[turn], pieces[turn].device, pieces[turn].size,
                                          lane.streams[turn]));
      }
      const unsigned other = turn ^ 1;
      if (is_under_way[other]) {
        const Piece& piece = pieces[other];
        Note(DRIVER(cuStreamSynchronize)(lane.streams[other]));
        // The kernel clears huge pages in half the time. They are requested once per region, because that call stalls
        // all lanes. The first piece decides: if it contains zero pages, huge pages would waste memory.
        if (piece.is_first && !piece.is_kept && NextZeroPage(lane.buffers[other], 0, piece.size) == piece.size) {
          madvise(piece.host, piece.left, MADV_HUGEPAGE);
        }
        CopyToHost(piece.host, lane.buffers[other], piece.size, piece.is_kept);
      }
      if (!is_under_way[turn]) return;
    }
  }

  void RunIn(Lane& lane) {
    Piece piece{};
    for (unsigned turn = 0; Take(piece); turn ^= 1) {
      Note(DRIVER(cuStreamSynchronize)(lane.streams[turn]));  // Then the buffer is free again.
      memcpy(lane.buffers[turn], piece.host, piece.size);
      Note(DRIVER(cuMemcpyHtoDAsync_v2)(piece.device, lane.buffers[turn], piece.size, lane.streams[turn]));
    }
    for (const cuda::Stream stream : lane.streams) Note(DRIVER(cuStreamSynchronize)(stream));
  }

  /// Returns false if no piece is left or a copy has failed.
  bool Take(Piece& piece) {
    const Locked locked(mutex_);
    while (at_ != end_ && (at_->host == nullptr || !at_->is_present || offset_ == at_->size)) {
      at_ = at_->next;
      offset_ = 0;
    }
    if (at_ == end_ || result_ != cuda::kSuccess) return false;
    const std::uint64_t left = at_->size - offset_;
    piece = {at_->address + offset_,
             static_cast<char*>(at_->host) + offset_,
             left < kPiece ? left : kPiece,
             left,
             offset_ == 0,
             at_->kept != nullptr};
    offset_ += piece.size;
    return true;
  }

  void Note(cuda::Return result) {
    if (result == cuda::kSuccess) return;
    const Locked locked(mutex_);
    if (result_ == cuda::kSuccess) result_ = result;
  }

  const unsigned device_;
  Lane lanes_[kMostLanes] = {};
  unsigned count_ = 0;
  char* buffers_ = nullptr;  // The buffers of all lanes, one after another.
  std::uint64_t buffer_bytes_ = 0;
  bool is_pinned_ = false;
  Run run_ = nullptr;
  const Region* end_ = nullptr;
  Mutex mutex_;  // Guards the members below.
  Region* at_ = nullptr;
  std::uint64_t offset_ = 0;  // Offset of the next piece in *at_.
  cuda::Return result_ = cuda::kSuccess;
};

Moved Failed(cuda::Return result, const char* text) {
  Moved moved;
  moved.result = result == cuda::kSuccess ? cuda::kUnknown : result;
  moved.text = text;
  return moved;
}

/// Copies one batch of the regions in [first, end) that are on the device to host memory as well. On failure, undoes
/// its work.
Moved CopyOut(Region* first, Region*& end, Copier& copier) {
  Moved moved;
  const char* why = nullptr;
  for (end = first; end != nullptr && moved.bytes < kBatch; end = end->next) {
    if (!end->is_present) continue;
    if (!MakeHost(*end)) {
      moved.result = cuda::kOutOfMemory;
      why = "the host does not have enough memory for the memory of the GPU";
      break;
    }
    moved.bytes += end->size;
  }
  if (why == nullptr) {
    moved.result = copier.CopyOut(first, end);
    why = "copying to the host failed";
  }
  if (moved.result == cuda::kSuccess) {
    if (!copier.is_pinned()) moved.unpinned = moved.bytes;
    return moved;
  }
  for (Region* region = first; region != end; region = region->next) {
    if (region->is_present) FreeHost(*region);
  }
  return Failed(moved.result, why);
}

bool HasAway(const Arena& arena) {
  for (const Region* region = arena.first; region != nullptr; region = region->next) {
    if (!region->is_present) return true;
  }
  return false;
}

/// Returns all regions that are off the device, or none. Requires: these regions, and no others, are on the host.
Moved BringIn(Arena& arena, unsigned device) {
  Moved moved;
  for (const Region* region = arena.first; region != nullptr; region = region->next) {
    if (!region->is_present) moved.bytes += region->size;
  }
  if (moved.bytes == 0) return moved;
  if (!TakeAtOnce(device, moved.bytes)) {
    Moved failed = Failed(cuda::kOutOfMemory, "the limit is lower than the memory that was moved out");
    failed.bytes = moved.bytes;  // The required amount, which the keeper may not have known.
    return failed;
  }
  cuda::Return result = cuda::kSuccess;
  for (Region* region = arena.first; region != nullptr && result == cuda::kSuccess; region = region->next) {
    if (!region->is_present) result = Back(*region, arena);
  }
  if (result == cuda::kSuccess) {
    Copier copier(device, moved.bytes);
    result = copier.is_open() ? copier.CopyIn(arena.first, nullptr) : cuda::kOutOfMemory;
  }
  for (Region* region = arena.first; region != nullptr; region = region->next) {
    if (region->host == nullptr) continue;
    if (result == cuda::kSuccess) {
      KeepHost(*region);
    } else if (region->is_present) {
      Unback(*region);  // The contents are still on the host.
    }
  }
  if (result == cuda::kSuccess) return moved;
  GiveBack(device, moved.bytes);
  return Failed(result, "the GPU does not have enough memory, or copying failed; all memory is on the host as before");
}

/// Removes the memory that was copied to the host from the device and gives its bytes back. Memory that cannot be
/// removed stays on the device only.
cuda::Return UnbackAll(Region* first, const Region* end, unsigned device) {
  cuda::Return result = cuda::kSuccess;
  std::uint64_t bytes = 0;
  for (Region* region = first; region != end; region = region->next) {
    if (!region->is_present) continue;
    const cuda::Return one = result == cuda::kSuccess ? Unback(*region) : result;
    if (!region->is_present) {
      bytes += region->size;  // It is off the device, whatever error the driver reports.
      continue;
    }
    result = one;
    FreeHost(*region);
  }
  GiveBack(device, bytes);
  return result;
}

}  // namespace

void FreeHost(Region& region) {
  void* const memory = region.host != nullptr ? region.host : region.kept;
  if (memory != nullptr) munmap(memory, region.size);
  region.host = region.kept = nullptr;
}

// Works in batches, so that waiting tenants can use freed memory before the rest has left.
Moved Evacuate(unsigned device) {
  Arena& arena = ArenaOf(device);
  const Locked locked(arena.mutex);
  if (arena.first == nullptr) return {};
  const ContextOf current(device);
  if (!current.is_current()) return Failed(cuda::kInvalidContext, "the process has no context on the device any more");
  const RelaxedCapture relaxed;
  std::uint64_t present = 0;
  for (const Region* region = arena.first; region != nullptr; region = region->next) {
    if (region->is_present) present += region->size;
  }
  if (present == 0) return {};
  Copier copier(device, present);
  if (!copier.is_open()) return Failed(cuda::kOutOfMemory, "cannot create a buffer or stream for the copies");
  Moved moved;
  Region* end = nullptr;
  for (Region* first = arena.first; first != nullptr; first = end) {
    Moved batch = CopyOut(first, end, copier);
    if (batch.result == cuda::kSuccess) {
      batch.result = UnbackAll(first, end, device);
      if (batch.result != cuda::kSuccess) batch.text = "unmapping failed; all memory is on the GPU as before";
    }
    if (batch.result != cuda::kSuccess) {
      const Moved undone = BringIn(arena, device);
      if (undone.result == cuda::kSuccess) return Failed(batch.result, batch.text);
      return Failed(batch.result,
                    "a part of its memory is on the host and cannot return, and the rest could not leave");
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
