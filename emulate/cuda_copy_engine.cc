// Copies that preserve holes. Memory that was never written reads as zeros and takes no space, and neither does a copy
// of it. So programs with gigabytes of emulated memory fit a laptop, as long as they write little of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_driver.h"

namespace divvy::cuda {
namespace {

constexpr size_t kWorthLooking = 64 << 10;  // Shorter copies do not look for holes.

// The position of bytes in a file. `length`: contiguous bytes from there; fd < 0: not in a file of the stand-in.
struct Place {
  const char* at;  // Where the process has mapped it.
  int fd;
  off_t offset;
  size_t length;
};

Place PlaceOf(const void* pointer, size_t bytes) {
  const auto address = reinterpret_cast<Pointer>(pointer);
  pthread_mutex_lock(&driver.monitor);
  const Range* range = RangeAt(address);
  Place place = {static_cast<const char*>(pointer), -1, 0, bytes};
  if (range != nullptr) {
    const size_t into = static_cast<size_t>(address - reinterpret_cast<Pointer>(range->start));
    place.length = range->bytes - into < bytes ? range->bytes - into : bytes;
    if (range->physical != nullptr) {
      place.fd = range->physical->fd;
      place.offset = range->physical->offset + static_cast<off_t>(range->offset + into);
    }
  }
  pthread_mutex_unlock(&driver.monitor);
  return place;
}

// Returns the length of the data from the position on, which must not be a hole, or a part of it. SEEK_HOLE would look
// at each page up to the next hole in the file. That takes seconds when a large memory is copied in pieces.
size_t DataLength(const Place& place) {
  unsigned char pages[1024];
  const size_t into = reinterpret_cast<uintptr_t>(place.at) % kPage;
  const size_t most = sizeof(pages) * kPage - into;
  const size_t length = place.length < most ? place.length : most;
  const size_t count = (into + length + kPage - 1) / kPage;
  if (mincore(const_cast<char*>(place.at) - into, count * kPage, pages) != 0) return length;
  size_t data = 1;
  while (data < count && (pages[data] & 1) != 0) ++data;  // A page that is swapped out becomes the next position.
  return data == count ? length : data * kPage - into;
}

// Returns whether the position is a hole; `length` becomes the extent of the hole or data, or a part of it.
bool IsHole(const Place& place, size_t& length) {
  length = place.length;
  if (place.fd < 0) return false;
  const off_t end = place.offset + static_cast<off_t>(place.length);
  const off_t data = lseek(place.fd, place.offset, SEEK_DATA);
  if (data < 0 || data >= end) return true;
  if (data > place.offset) {
    length = static_cast<size_t>(data - place.offset);
    return true;
  }
  length = DataLength(place);
  return false;
}

bool IsZero(const char* bytes, size_t count) {
  return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

void ClearMemory(char* target, size_t bytes) {
  while (bytes > 0) {
    const size_t to_edge = kPage - reinterpret_cast<uintptr_t>(target) % kPage;
    const size_t piece = to_edge < bytes ? to_edge : bytes;
    if (!IsZero(target, piece)) memset(target, 0, piece);
    target += piece;
    bytes -= piece;
  }
}

void ClearPlace(char* target, const Place& place) {
  size_t done = 0;
  while (done < place.length) {
    size_t length = 0;
    if (IsHole({target + done, place.fd, place.offset + static_cast<off_t>(done), place.length - done}, length)) {
      done += length;
      continue;
    }
    // Whole pages are freed, the edges are cleared.
    const size_t edge = reinterpret_cast<uintptr_t>(target + done) % kPage;
    if (edge == 0 && length >= kPage) {
      length -= length % kPage;
      fallocate(place.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place.offset + static_cast<off_t>(done),
                static_cast<off_t>(length));
    } else {
      if (edge + length > kPage) length = kPage - edge;
      memset(target + done, 0, length);
    }
    done += length;
  }
}

// Copies from memory that is not in such a file, without writing pages of zeros.
void CopyUnknown(char* target, const char* source, size_t bytes) {
  while (bytes > 0) {
    size_t run = 0;  // A run of pages that are all zero, or all not.
    bool is_zero = false;
    while (run < bytes) {
      const size_t to_edge = kPage - reinterpret_cast<uintptr_t>(source + run) % kPage;
      const size_t piece = to_edge < bytes - run ? to_edge : bytes - run;
      const bool is_piece_zero = IsZero(source + run, piece);
      if (run == 0) is_zero = is_piece_zero;
      if (is_piece_zero != is_zero) break;
      run += piece;
    }
    if (is_zero) {
      ZeroBytes(target, run);
    } else {
      memcpy(target, source, run);
    }
    target += run;
    source += run;
    bytes -= run;
  }
}

}  // namespace

void ZeroBytes(void* target, size_t bytes) {
  char* to = static_cast<char*>(target);
  while (bytes > 0) {
    const Place place = PlaceOf(to, bytes);
    if (place.fd >= 0) {
      ClearPlace(to, place);
    } else {
      ClearMemory(to, place.length);
    }
    to += place.length;
    bytes -= place.length;
  }
}

void CopyBytes(void* target, const void* source, size_t bytes) {
  char* to = static_cast<char*>(target);
  const char* from = static_cast<const char*>(source);
  if (bytes < kWorthLooking) {
    memmove(to, from, bytes);
    return;
  }
  while (bytes > 0) {
    const Place place = PlaceOf(from, bytes);
    size_t length = 0;
    if (place.fd < 0) {
      length = place.length;
      CopyUnknown(to, from, length);
    } else if (IsHole(place, length)) {
      ZeroBytes(to, length);
    } else {
      memmove(to, from, length);
    }
    to += length;
    from += length;
    bytes -= length;
  }
}

void FillBytes(Pointer target, size_t bytes, unsigned value, unsigned element) {
  auto* to = reinterpret_cast<char*>(target);
  if (value == 0) return ZeroBytes(to, bytes);
  if (element == 1) {
    memset(to, static_cast<int>(value), bytes);
    return;
  }
  for (size_t i = 0; i + element <= bytes; i += element) memcpy(to + i, &value, element);
}

namespace {

char* Row(const CopyEnd3D& end, size_t y, size_t z) {
  char* start = end.type == kMemoryHost ? static_cast<char*>(end.host) : reinterpret_cast<char*>(end.device);
  size_t pitch = end.pitch;
  size_t height = end.height;
  if (end.type == kMemoryArray) {
    start = end.array->range->start;
    pitch = end.array->shape.width * end.array->element;
    height = end.array->shape.height;
  }
  return start + ((end.z + z) * (height == 0 ? 1 : height) + end.y + y) * pitch + end.x_bytes;
}

}  // namespace

void CopyShape(const Copy3D& copy) {
  for (size_t z = 0; z < copy.depth; ++z) {
    for (size_t y = 0; y < copy.height; ++y) {
      CopyBytes(Row(copy.target, y, z), Row(copy.source, y, z), copy.width_bytes);
    }
  }
}

void PayCopy(Device device, size_t bytes) {
  const uint64_t rate = FaultsOf(device).copy_rate;
  if (rate == 0) return;
  SleepUntil(Now() + static_cast<uint64_t>(static_cast<double>(bytes) / static_cast<double>(rate) * 1e9));
}

}  // namespace divvy::cuda
