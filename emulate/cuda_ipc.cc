// Memory shared between processes of this machine. Its owner keeps counting it.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_driver.h"

namespace divvy::cuda {
namespace {

constexpr uint32_t kIpcMagic = 0x44565949;

struct Given {
  uint32_t magic;
  int32_t pid;
  int32_t fd;
  uint32_t gpu;
  int64_t offset;
  uint64_t bytes;
  uint64_t asked;
};
static_assert(sizeof(Given) <= sizeof(IpcMemory));

Range* MapForeign(Context context, int fd, off_t offset, size_t bytes, size_t asked, Device device) {
  auto* physical = New<Physical>();
  physical->fd = fd;
  physical->owns_fd = true;
  physical->offset = offset;
  physical->bytes = bytes;
  physical->device = device;
  physical->references = 1;
  ++driver.foreign;
  TellWhetherMovable();
  Range* range = MapRange(kImported, physical, nullptr, asked, context);
  if (range == nullptr) Release(physical);
  return range;
}

}  // namespace

Return cuIpcGetMemHandle(IpcMemory* handle, Pointer pointer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  const Range* range = RangeFrom(pointer);
  if (handle == nullptr || range == nullptr || range->kind != kPlain) return kInvalidValue;
  Physical* physical = range->physical;
  const Given given = {kIpcMagic,        getpid(),        physical->fd, driver.gpus[physical->device],
                       physical->offset, physical->bytes, range->asked};
  memset(handle, 0, sizeof(*handle));
  memcpy(handle, &given, sizeof(given));
  if (!physical->is_given) {
    physical->is_given = true;
    ++driver.foreign;
    TellWhetherMovable();
  }
  return kSuccess;
}

Return cuIpcOpenMemHandle_v2(Pointer* pointer, IpcMemory handle, unsigned) {
  Call call;
  if (call.error != kSuccess) return call.error;
  Given given;
  memcpy(&given, &handle, sizeof(given));
  if (pointer == nullptr || given.magic != kIpcMagic) return kInvalidValue;
  if (given.pid == getpid()) return kInvalidContext;  // Real drivers do the same.
  Device device = -1;
  for (unsigned i = 0; i < driver.gpu_count; ++i) {
    if (driver.gpus[i] == given.gpu) device = static_cast<Device>(i);
  }
  if (device < 0) return kInvalidDevice;
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", given.pid, given.fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return kMapFailed;
  const Range* range = MapForeign(call.context, fd, given.offset, given.bytes, given.asked, device);
  if (range == nullptr) return kMapFailed;
  *pointer = reinterpret_cast<Pointer>(range->start);
  return kSuccess;
}
Return cuIpcOpenMemHandle(Pointer* pointer, IpcMemory handle, unsigned flags) {
  return cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

Return cuIpcCloseMemHandle(Pointer pointer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  Range* range = RangeFrom(pointer);
  if (range == nullptr || range->kind != kImported) return kInvalidValue;
  WaitForContext(call.context);
  RemoveRange(range);
  return kSuccess;
}

struct OpaqueExternalMemory {
  int fd;
  size_t bytes;
};

Return cuImportExternalMemory(ExternalMemory* memory, const ExternalMemoryHandle* handle) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (memory == nullptr || handle == nullptr || handle->size == 0) return kInvalidValue;
  if (handle->type != kExternalOpaqueFd) return kNotSupported;
  *memory = New<OpaqueExternalMemory>();
  (*memory)->fd = handle->handle.fd;  // The driver owns it from now on.
  (*memory)->bytes = handle->size;
  return kSuccess;
}

Return cuExternalMemoryGetMappedBuffer(Pointer* pointer, ExternalMemory memory, const ExternalBuffer* buffer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (pointer == nullptr || memory == nullptr || buffer == nullptr || buffer->offset % kPage != 0 ||
      buffer->offset + buffer->size > memory->bytes) {
    return kInvalidValue;
  }
  const Range* range = MapForeign(call.context, dup(memory->fd), static_cast<off_t>(buffer->offset),
                                  RoundUp(buffer->size, kPage), buffer->size, call.context->device);
  if (range == nullptr) return kMapFailed;
  *pointer = reinterpret_cast<Pointer>(range->start);
  return kSuccess;
}

Return cuDestroyExternalMemory(ExternalMemory memory) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (memory == nullptr) return kInvalidHandle;
  close(memory->fd);
  free(memory);
  return kSuccess;
}

}  // namespace divvy::cuda
