// Physical memory (pieces of files) and address ranges: the basis of all allocations.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda_driver.h"
#include "platform/os/old_glibc.h"

namespace divvy::cuda {

namespace {

constexpr size_t kSmall = 1 << 20;
constexpr size_t kSmallUnit = 64 << 10;

// Returns the index of the first range that starts after `pointer`.
size_t After(Pointer pointer) {
  size_t low = 0;
  size_t high = driver.ranges.count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (reinterpret_cast<Pointer>(driver.ranges[middle]->start) <= pointer) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

Physical* MakePhysical(Device device, size_t bytes, bool is_exportable, Return* error) {
  bytes = RoundUp(bytes, kPage);
  if (device >= 0) {
    if (IsFailingAllocation(device)) return *error = kOutOfMemory, nullptr;
    *error = TakeMemory(device, bytes, false);
    if (*error != kSuccess) return nullptr;
  }
  Physical made = {};
  made.fd = driver.arena;
  if (is_exportable) {
    made.fd = old_glibc::MakeMemoryFile("divvy-gpu-memory-shared", MFD_CLOEXEC);
    made.owns_fd = true;
  } else {
    // Aligned for huge pages, which the file may have.
    made.offset =
        bytes < kChunk ? driver.arena_end : static_cast<off_t>(RoundUp(static_cast<size_t>(driver.arena_end), kChunk));
  }
  const off_t end = made.offset + static_cast<off_t>(bytes);
  if (made.fd < 0 || ftruncate(made.fd, end) != 0) {
    if (device >= 0) GiveMemory(device, bytes, false);
    if (made.owns_fd && made.fd >= 0) close(made.fd);
    return *error = kOperatingSystem, nullptr;
  }
  if (!is_exportable) driver.arena_end = end;
  made.bytes = bytes;
  made.device = device;
  made.references = 1;
  made.is_counted = device >= 0;
  if (is_exportable) {
    ++driver.foreign;
    TellWhetherMovable();
  }
  auto* physical = New<Physical>();
  *physical = made;
  *error = kSuccess;
  return physical;
}

void CountPhysical(Physical* physical, bool is_counted) {
  if (physical->is_counted == is_counted || physical->device < 0) return;
  physical->is_counted = is_counted;
  if (!is_counted) GiveMemory(physical->device, physical->bytes, false);
}

void Release(Physical* physical) {
  if (--physical->references != 0) return;
  CountPhysical(physical, false);
  if (physical->is_given || physical->owns_fd) {
    --driver.foreign;
    TellWhetherMovable();
  }
  if (physical->owns_fd) {
    close(physical->fd);
  } else {
    fallocate(physical->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, physical->offset,
              static_cast<off_t>(physical->bytes));
  }
  free(physical);
}

void TellWhetherMovable() { MySlot().is_unmovable = driver.managed != 0 || driver.foreign != 0 ? 1 : 0; }

void AddRange(Range* range) {
  range->id = ++driver.next_id;
  driver.ranges.InsertAt(After(reinterpret_cast<Pointer>(range->start)), range);
}

void ForgetRange(Range* range) {
  const size_t after = After(reinterpret_cast<Pointer>(range->start));
  for (size_t i = after; i-- > 0;) {
    if (driver.ranges[i] == range) return driver.ranges.RemoveAt(i);
  }
}

Range* MapRange(RangeKind kind, Physical* physical, char* at, size_t asked, Context context) {
  const int rights = kind == kMapped ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* mapped = mmap(at, physical->bytes, rights, MAP_SHARED | MAP_NORESERVE | (at == nullptr ? 0 : MAP_FIXED),
                      physical->fd, physical->offset);
  if (mapped == MAP_FAILED) return nullptr;
  auto* range = New<Range>();
  range->start = static_cast<char*>(mapped);
  range->bytes = physical->bytes;
  range->asked = asked;
  range->kind = kind;
  range->physical = physical;
  range->context = context;
  range->device = physical->device;
  range->access = kind == kMapped ? kAccessNone : kAccessReadWrite;
  AddRange(range);
  return range;
}

Range* AllocateRange(RangeKind kind, Context context, size_t bytes, Return* error) {
  const size_t counted = RoundUp(bytes, bytes < kSmall ? kSmallUnit : kChunk);
  if (counted < bytes) return *error = kOutOfMemory, nullptr;
  Physical* physical = MakePhysical(context->device, counted, false, error);
  if (physical == nullptr) return nullptr;
  Range* range = MapRange(kind, physical, nullptr, bytes, context);
  if (range == nullptr) {
    Release(physical);
    *error = kOutOfMemory;
  }
  return range;
}

void RemoveRange(Range* range) {
  ForgetRange(range);
  if (range->physical != nullptr) {
    munmap(range->start, range->bytes);
    Release(range->physical);
  }
  free(range);
}

void ProtectRange(const Range* range, bool is_hidden) {
  if (range->physical == nullptr || range->device < 0) return;
  int rights = PROT_NONE;
  if (!is_hidden && range->access != kAccessNone) {
    rights = PROT_READ | (range->access == kAccessReadWrite ? PROT_WRITE : 0);
  }
  mprotect(range->start, range->bytes, rights);
}

Range* RangeAt(Pointer pointer) {
  const size_t after = After(pointer);
  // A reservation precedes the mappings in it. Finds the last range that starts at or before `pointer` and covers it.
  for (size_t i = after; i-- > 0;) {
    Range* range = driver.ranges[i];
    if (pointer < reinterpret_cast<Pointer>(range->start) + range->bytes) return range;
    if (range->kind != kMapped) return nullptr;
  }
  return nullptr;
}

Range* RangeFrom(Pointer pointer) {
  Range* range = RangeAt(pointer);
  return range != nullptr && reinterpret_cast<Pointer>(range->start) == pointer ? range : nullptr;
}

}  // namespace divvy::cuda
