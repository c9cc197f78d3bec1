// Stream and event entry points.
#include "cuda_current.h"
#include "cuda_driver.h"

namespace divvy::cuda {

Return cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (stream == nullptr || flags > kStreamNonBlocking) return kInvalidValue;
  *stream = NewStream(call.context, flags, priority);
  return kSuccess;
}
Return cuStreamCreate(Stream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

Return cuStreamDestroy_v2(Stream stream) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (reinterpret_cast<uintptr_t>(stream) <= kStreamPerThread) return kInvalidHandle;
  RemoveStream(stream);
  return kSuccess;
}
Return cuStreamDestroy(Stream stream) { return cuStreamDestroy_v2(stream); }

Return cuStreamSynchronize(Stream handle) {
  Call call;
  if (call.error != kSuccess) return call.error;
  Stream stream = call.Resolve(handle);
  if (stream->capture != nullptr) return kStreamCaptureUnsupported;
  WaitForStream(stream);
  TrimPools(call.context->device);
  return call.context->sticky;
}

Return cuStreamQuery(Stream handle) {
  Call call;
  if (call.error != kSuccess) return call.error;
  const Stream stream = call.Resolve(handle);
  if (stream->capture != nullptr) return kStreamCaptureUnsupported;
  return IsStreamDone(stream) ? kSuccess : kNotReady;
}

Return cuStreamWaitEvent(Stream handle, Event event, unsigned) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (event == nullptr) return kInvalidHandle;
  Stream stream = call.Resolve(handle);
  if (event->capture != nullptr) {
    stream->capture = event->capture;  // The stream joins the capture; its order is that of the calls.
    return kSuccess;
  }
  if (event->done >= event->requested && stream->capture == nullptr) return kSuccess;
  Command* command = NewCommand(kWait);
  command->event = event;
  command->version = event->requested;
  return Submit(stream, command);
}

Return cuStreamGetPriority(Stream handle, int* priority) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (priority == nullptr) return kInvalidValue;
  *priority = call.Resolve(handle)->priority;
  return kSuccess;
}

Return cuStreamGetFlags(Stream handle, unsigned* flags) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (flags == nullptr) return kInvalidValue;
  *flags = call.Resolve(handle)->flags;
  return kSuccess;
}

Return cuStreamGetId(Stream handle, unsigned long long* id) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (id == nullptr) return kInvalidValue;
  *id = call.Resolve(handle)->id;
  return kSuccess;
}

Return cuStreamGetCtx(Stream handle, Context* context) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (context == nullptr) return kInvalidValue;
  *context = call.Resolve(handle)->context;
  return kSuccess;
}

Return cuStreamGetCtx_v2(Stream handle, Context* context, GreenContext* green) {
  const Return result = cuStreamGetCtx(handle, context);
  return result != kSuccess || green == nullptr ? result : cuStreamGetGreenCtx(handle, green);
}

Return cuStreamGetDevice(Stream handle, Device* device) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (device == nullptr) return kInvalidValue;
  *device = call.Resolve(handle)->context->device;
  return kSuccess;
}

Return cuStreamAddCallback(Stream handle, StreamCallback callback, void* argument, unsigned) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (callback == nullptr) return kInvalidValue;
  Command* command = NewCommand(kCallBack);
  command->callback = callback;
  command->user = argument;
  return Submit(call.Resolve(handle), command);
}

Return cuStreamGetAttribute(Stream, int, LaunchAttributeValue* value) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (value == nullptr) return kInvalidValue;
  *value = {};
  return kSuccess;
}
Return cuStreamSetAttribute(Stream, int, const LaunchAttributeValue*) {
  Call call;
  return call.error;
}
Return cuStreamCopyAttributes(Stream, Stream) {
  Call call;
  return call.error;
}

namespace {

Return SubmitValue(CommandKind kind, Stream handle, Pointer pointer, uint64_t value, unsigned bytes, unsigned flags) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (RangeAt(pointer) == nullptr) return kInvalidValue;
  Command* command = NewCommand(kind);
  command->target = pointer;
  command->wide_value = value;
  command->element = bytes;
  command->value = flags;
  return Submit(call.Resolve(handle), command);
}

}  // namespace

Return cuStreamWriteValue32_v2(Stream stream, Pointer pointer, unsigned value, unsigned flags) {
  return SubmitValue(kWriteValue, stream, pointer, value, 4, flags);
}
Return cuStreamWriteValue64_v2(Stream stream, Pointer pointer, unsigned long long value, unsigned flags) {
  return SubmitValue(kWriteValue, stream, pointer, value, 8, flags);
}
Return cuStreamWriteValue32(Stream stream, Pointer pointer, unsigned value, unsigned flags) {
  return cuStreamWriteValue32_v2(stream, pointer, value, flags);
}
Return cuStreamWriteValue64(Stream stream, Pointer pointer, unsigned long long value, unsigned flags) {
  return cuStreamWriteValue64_v2(stream, pointer, value, flags);
}

Return cuEventCreate(Event* event, unsigned flags) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (event == nullptr) return kInvalidValue;
  *event = New<OpaqueEvent>();
  (*event)->flags = flags;
  (*event)->device = call.context->device;
  return kSuccess;
}

Return cuEventDestroy_v2(Event event) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (event == nullptr) return kInvalidHandle;
  event->is_removed = true;
  if (event->uses == 0) free(event);
  return kSuccess;
}
Return cuEventDestroy(Event event) { return cuEventDestroy_v2(event); }

Return cuEventRecordWithFlags(Event event, Stream handle, unsigned) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (event == nullptr) return kInvalidHandle;
  Stream stream = call.Resolve(handle);
  event->capture = stream->capture;
  if (stream->capture != nullptr) return kSuccess;
  Command* command = NewCommand(kRecord);
  command->event = event;
  command->version = ++event->requested;
  return Submit(stream, command);
}
Return cuEventRecord(Event event, Stream stream) { return cuEventRecordWithFlags(event, stream, 0); }

Return cuEventQuery(Event event) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (event == nullptr) return kInvalidHandle;
  return event->done >= event->requested ? kSuccess : kNotReady;
}

Return cuEventSynchronize(Event event) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (event == nullptr) return kInvalidHandle;
  const uint64_t version = event->requested;
  while (event->done < version) WaitForChange();
  const Context context = CurrentContext();
  return context == nullptr ? kSuccess : context->sticky;
}

Return cuEventElapsedTime(float* milliseconds, Event start, Event end) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (milliseconds == nullptr || start == nullptr || end == nullptr) return kInvalidHandle;
  if (((start->flags | end->flags) & kEventDisableTiming) != 0 || start->requested == 0 || end->requested == 0) {
    return kInvalidHandle;
  }
  if (start->done < start->requested || end->done < end->requested) return kNotReady;
  const auto nanoseconds = static_cast<int64_t>(end->reached_ns - start->reached_ns);
  *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
  return kSuccess;
}
Return cuEventElapsedTime_v2(float* milliseconds, Event start, Event end) {
  return cuEventElapsedTime(milliseconds, start, end);
}

}  // namespace divvy::cuda
