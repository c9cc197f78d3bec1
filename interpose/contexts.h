// Tracks the contexts that this process creates and uses, to wait for all work on a device and to have a context for
// the copies of a move.
#pragma once

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

void NoteContext(cuda::Context context, unsigned device);
/// Records which device the CUDA context that is current on this thread belongs to.
void NoteCurrentContext();
/// Returns the tenant's number of the device that this CUDA context belongs to; kNotOurs if the context is unknown.
unsigned DeviceOfContext(cuda::Context context);
/// Forgets a context; call this before it is destroyed. When the call returns, no thread of this library waits for the
/// context any more.
void ForgetContext(cuda::Context context);
void ForgetContexts();

/// Waits until the device has completed all work of this process. Returns the first error of any context.
cuda::Return SynchroniseDevice(unsigned device);

/// Makes a context of the device current for a scope. is_current() is false if there was none.
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

/// For a scope, lets calls of this library neither disturb nor be rejected by a stream capture of the program.
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
