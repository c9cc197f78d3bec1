// Entry points that copy and fill. The synchronous ones wait for earlier work of stream 0 and have completed when they
// return; the Async ones are commands of their stream.
#include "cuda_driver.h"

namespace divvy::cuda {
namespace {

constexpr unsigned kBoth = 3;  // The ends that must be device memory: bit 0 for the target, bit 1 for the source.

bool IsUsable(Pointer pointer, size_t bytes) {
  const Range* range = RangeAt(pointer);
  if (range == nullptr || range->kind == kReserved || range->access == kAccessNone) return false;
  const auto start = reinterpret_cast<Pointer>(range->start);
  const size_t left = static_cast<size_t>(start + range->bytes - pointer);
  return bytes <= left || IsUsable(start + range->bytes, bytes - left);
}

bool AreUsable(Pointer target, Pointer source, size_t bytes, unsigned ends) {
  return ((ends & 1) == 0 || IsUsable(target, bytes)) && ((ends & 2) == 0 || IsUsable(source, bytes));
}

Return CopyNow(Pointer target, Pointer source, size_t bytes, unsigned ends) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (bytes == 0) return kSuccess;
  if (!AreUsable(target, source, bytes, ends)) return kInvalidValue;
  WaitForStream(call.Resolve(nullptr));
  if (call.context->sticky != kSuccess) return call.context->sticky;
  Outside outside;
  PayCopy(call.context->device, bytes);
  CopyBytes(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes);
  return kSuccess;
}

Return CopyLater(Pointer target, Pointer source, size_t bytes, Stream stream, unsigned ends) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (bytes == 0) return kSuccess;
  if (!AreUsable(target, source, bytes, ends)) return kInvalidValue;
  Command* command = NewCommand(kCopy);
  command->target = target;
  command->source = source;
  command->bytes = bytes;
  return Submit(call.Resolve(stream), command);
}

Return Fill(Pointer target, size_t pitch, unsigned value, unsigned element, size_t width, size_t rows, Stream stream,
            bool is_now) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (width == 0 || rows == 0) return kSuccess;
  if (!IsUsable(target, (rows - 1) * pitch + width * element)) return kInvalidValue;
  Command* command = NewCommand(kFill);
  command->target = target;
  command->pitch = pitch;
  command->rows = rows;
  command->bytes = width * element;
  command->value = value;
  command->element = element;
  Stream resolved = call.Resolve(stream);
  const Return submitted = Submit(resolved, command);
  if (submitted == kSuccess && is_now && resolved->capture == nullptr) WaitForStream(resolved);
  return submitted;
}

const void* Host(const CopyEnd3D& end) { return end.host; }

// Resolves memory "of any kind" in a shape: addresses are the same on host and device.
CopyEnd3D Known(CopyEnd3D end) {
  if (end.type == kMemoryUnified) end.type = kMemoryDevice;
  return end;
}

bool IsValid(const CopyEnd3D& end) {
  if (end.type == kMemoryArray) return end.array != nullptr && end.array->range != nullptr;
  if (end.type == kMemoryHost) return Host(end) != nullptr;
  return RangeAt(end.device) != nullptr;
}

Return CopyShapeIn(Copy3D copy, Stream stream, bool is_now) {
  Call call;
  if (call.error != kSuccess) return call.error;
  copy.source = Known(copy.source);
  copy.target = Known(copy.target);
  if (!IsValid(copy.source) || !IsValid(copy.target)) return kInvalidValue;
  Command* command = NewCommand(kCopyShaped);
  command->shaped = New<Copy3D>();
  *command->shaped = copy;
  Stream resolved = call.Resolve(stream);
  const Return submitted = Submit(resolved, command);
  if (submitted == kSuccess && is_now && resolved->capture == nullptr) WaitForStream(resolved);
  return submitted;
}

Copy3D Flat(const Copy2D& copy) {
  Copy3D out = {};
  out.source = {copy.source_x_bytes,
                copy.source_y,
                0,
                0,
                copy.source_type,
                const_cast<void*>(copy.source_host),
                copy.source_device,
                copy.source_array,
                nullptr,
                copy.source_pitch,
                0};
  out.target = {copy.target_x_bytes,
                copy.target_y,
                0,
                0,
                copy.target_type,
                copy.target_host,
                copy.target_device,
                copy.target_array,
                nullptr,
                copy.target_pitch,
                0};
  out.width_bytes = copy.width_bytes;
  out.height = copy.height;
  out.depth = 1;
  return out;
}

Pointer InArray(Array array, size_t offset) { return reinterpret_cast<Pointer>(array->range->start) + offset; }
Pointer Of(const void* host) { return reinterpret_cast<Pointer>(host); }

}  // namespace

Return cuMemcpy(Pointer target, Pointer source, size_t bytes) { return CopyNow(target, source, bytes, 0); }
Return cuMemcpyAsync(Pointer target, Pointer source, size_t bytes, Stream stream) {
  return CopyLater(target, source, bytes, stream, 0);
}
Return cuMemcpyPeer(Pointer target, Context, Pointer source, Context, size_t bytes) {
  return CopyNow(target, source, bytes, kBoth);
}
Return cuMemcpyPeerAsync(Pointer target, Context, Pointer source, Context, size_t bytes, Stream stream) {
  return CopyLater(target, source, bytes, stream, kBoth);
}
Return cuMemcpyHtoD_v2(Pointer target, const void* source, size_t bytes) {
  return CopyNow(target, Of(source), bytes, 1);
}
Return cuMemcpyDtoH_v2(void* target, Pointer source, size_t bytes) { return CopyNow(Of(target), source, bytes, 2); }
Return cuMemcpyDtoD_v2(Pointer target, Pointer source, size_t bytes) { return CopyNow(target, source, bytes, kBoth); }
Return cuMemcpyHtoDAsync_v2(Pointer target, const void* source, size_t bytes, Stream stream) {
  return CopyLater(target, Of(source), bytes, stream, 1);
}
Return cuMemcpyDtoHAsync_v2(void* target, Pointer source, size_t bytes, Stream stream) {
  return CopyLater(Of(target), source, bytes, stream, 2);
}
Return cuMemcpyDtoDAsync_v2(Pointer target, Pointer source, size_t bytes, Stream stream) {
  return CopyLater(target, source, bytes, stream, kBoth);
}

// Arrays are stored row by row, in the order in which offsets count.
Return cuMemcpyDtoA_v2(Array target, size_t offset, Pointer source, size_t bytes) {
  return CopyNow(InArray(target, offset), source, bytes, kBoth);
}
Return cuMemcpyAtoD_v2(Pointer target, Array source, size_t offset, size_t bytes) {
  return CopyNow(target, InArray(source, offset), bytes, kBoth);
}
Return cuMemcpyHtoA_v2(Array target, size_t offset, const void* source, size_t bytes) {
  return CopyNow(InArray(target, offset), Of(source), bytes, 1);
}
Return cuMemcpyAtoH_v2(void* target, Array source, size_t offset, size_t bytes) {
  return CopyNow(Of(target), InArray(source, offset), bytes, 2);
}
Return cuMemcpyAtoA_v2(Array target, size_t to, Array source, size_t from, size_t bytes) {
  return CopyNow(InArray(target, to), InArray(source, from), bytes, kBoth);
}
Return cuMemcpyHtoAAsync_v2(Array target, size_t offset, const void* source, size_t bytes, Stream stream) {
  return CopyLater(InArray(target, offset), Of(source), bytes, stream, 1);
}
Return cuMemcpyAtoHAsync_v2(void* target, Array source, size_t offset, size_t bytes, Stream stream) {
  return CopyLater(Of(target), InArray(source, offset), bytes, stream, 2);
}

Return cuMemcpy2D_v2(const Copy2D* copy) {
  return copy == nullptr ? kInvalidValue : CopyShapeIn(Flat(*copy), nullptr, true);
}
Return cuMemcpy2DUnaligned_v2(const Copy2D* copy) { return cuMemcpy2D_v2(copy); }
Return cuMemcpy2DAsync_v2(const Copy2D* copy, Stream stream) {
  return copy == nullptr ? kInvalidValue : CopyShapeIn(Flat(*copy), stream, false);
}
Return cuMemcpy3D_v2(const Copy3D* copy) { return copy == nullptr ? kInvalidValue : CopyShapeIn(*copy, nullptr, true); }
Return cuMemcpy3DAsync_v2(const Copy3D* copy, Stream stream) {
  return copy == nullptr ? kInvalidValue : CopyShapeIn(*copy, stream, false);
}
Return cuMemcpy3DPeer(const Copy3DPeer* copy) { return cuMemcpy3D_v2(copy); }
Return cuMemcpy3DPeerAsync(const Copy3DPeer* copy, Stream stream) { return cuMemcpy3DAsync_v2(copy, stream); }

Return cuMemsetD8_v2(Pointer p, unsigned char value, size_t count) {
  return Fill(p, count, value, 1, count, 1, nullptr, true);
}
Return cuMemsetD16_v2(Pointer p, unsigned short value, size_t count) {
  return Fill(p, count * 2, value, 2, count, 1, nullptr, true);
}
Return cuMemsetD32_v2(Pointer p, unsigned value, size_t count) {
  return Fill(p, count * 4, value, 4, count, 1, nullptr, true);
}
Return cuMemsetD2D8_v2(Pointer p, size_t pitch, unsigned char value, size_t width, size_t height) {
  return Fill(p, pitch, value, 1, width, height, nullptr, true);
}
Return cuMemsetD2D16_v2(Pointer p, size_t pitch, unsigned short value, size_t width, size_t height) {
  return Fill(p, pitch, value, 2, width, height, nullptr, true);
}
Return cuMemsetD2D32_v2(Pointer p, size_t pitch, unsigned value, size_t width, size_t height) {
  return Fill(p, pitch, value, 4, width, height, nullptr, true);
}
Return cuMemsetD8Async(Pointer p, unsigned char value, size_t count, Stream stream) {
  return Fill(p, count, value, 1, count, 1, stream, false);
}
Return cuMemsetD16Async(Pointer p, unsigned short value, size_t count, Stream stream) {
  return Fill(p, count * 2, value, 2, count, 1, stream, false);
}
Return cuMemsetD32Async(Pointer p, unsigned value, size_t count, Stream stream) {
  return Fill(p, count * 4, value, 4, count, 1, stream, false);
}
Return cuMemsetD2D8Async(Pointer p, size_t pitch, unsigned char value, size_t width, size_t height, Stream stream) {
  return Fill(p, pitch, value, 1, width, height, stream, false);
}
Return cuMemsetD2D16Async(Pointer p, size_t pitch, unsigned short value, size_t width, size_t height, Stream stream) {
  return Fill(p, pitch, value, 2, width, height, stream, false);
}
Return cuMemsetD2D32Async(Pointer p, size_t pitch, unsigned value, size_t width, size_t height, Stream stream) {
  return Fill(p, pitch, value, 4, width, height, stream, false);
}

}  // namespace divvy::cuda
