// The contexts of this process, as it makes and uses them: to wait for all that runs on a device, and to have one for
// the copies of a move.
#pragma once

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

void NoteContext(cuda::Context context, unsigned device);
/// Whatever is current on this thread.
void NoteCurrentContext();
/// The tenant's number of its device; kNotOurs: it is not known.
unsigned DeviceOfContext(cuda::Context context);
/// Before it is destroyed: nobody waits for it any more when this returns.
void ForgetContext(cuda::Context context);
void ForgetContexts();

/// Waits until the device has done all that this process gave it. The first error of any context.
cuda::Return SynchroniseDevice(unsigned device);

/// Makes a context of the device current for a scope; is_current(): there was one.
class ContextOf {
 public:
  explicit ContextOf(unsigned device);
  explicit ContextOf(cuda::Context context);
  ~ContextOf();
  ContextOf(const ContextOf&) = delete;
  ContextOf& operator=(const ContextOf&) = delete;
  bool is_current() const { return is_current_; }

 private:
  bool is_current_ = false;
};

/// Calls of this library disturb no capture of the program's, and are refused by none.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  bool is_set_ = false;
};

}  // namespace divvy::interpose
