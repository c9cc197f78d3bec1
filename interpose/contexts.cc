#include "contexts.h"

#include "driver.h"
#include "streams.h"
#include "sync.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr int kMostContexts = 64;  // Of which we know; programs have one for each device.

struct Known {
  cuda::Context context;
  unsigned device;
};

Mutex g_mutex;
Known g_known[kMostContexts];
int g_count = 0;
__attribute__((tls_model("initial-exec"))) thread_local cuda::Context t_noted = nullptr;

cuda::Return Synchronise(cuda::Context context) {
  const ContextOf current(context);
  if (!current.is_current()) return cuda::kContextIsDestroyed;
  return SynchroniseCurrentContext();
}

}  // namespace

void NoteContext(cuda::Context context, unsigned device) {
  if (context == nullptr || device == kNotOurs) return;
  t_noted = context;
  const Locked locked(g_mutex);
  for (int i = 0; i < g_count; ++i) {
    if (g_known[i].context == context) return;
  }
  if (g_count < kMostContexts) g_known[g_count++] = {context, device};
}

void NoteCurrentContext() {
  cuda::Context context = nullptr;
  if (DRIVER(cuCtxGetCurrent)(&context) != cuda::kSuccess || context == nullptr || context == t_noted) return;
  cuda::Device ordinal = -1;
  if (DRIVER(cuCtxGetDevice)(&ordinal) == cuda::kSuccess) NoteContext(context, DeviceOf(ordinal));
}

void ForgetContext(cuda::Context context) {
  t_noted = nullptr;
  const Locked locked(g_mutex);
  for (int i = 0; i < g_count; ++i) {
    if (g_known[i].context == context) g_known[i--] = g_known[--g_count];
  }
}

void ForgetContexts() {
  g_mutex.Renew();
  g_count = 0;
  t_noted = nullptr;
}

cuda::Return SynchroniseDevice(unsigned device) {
  const Locked locked(g_mutex);  // So that none is destroyed underneath.
  cuda::Return first = cuda::kSuccess;
  for (int i = 0; i < g_count; ++i) {
    if (g_known[i].device != device) continue;
    const cuda::Return result = Synchronise(g_known[i].context);
    if (first == cuda::kSuccess) first = result;
  }
  return first;
}

ContextOf::ContextOf(unsigned device) {
  cuda::Context context = nullptr;
  {
    const Locked locked(g_mutex);
    for (int i = 0; i < g_count; ++i) {
      if (g_known[i].device == device) context = g_known[i].context;
    }
  }
  is_current_ = context != nullptr && DRIVER(cuCtxPushCurrent_v2)(context) == cuda::kSuccess;
}

ContextOf::ContextOf(cuda::Context context)
    : is_current_(context != nullptr && DRIVER(cuCtxPushCurrent_v2)(context) == cuda::kSuccess) {}

ContextOf::~ContextOf() {
  cuda::Context popped = nullptr;
  if (is_current_) DRIVER(cuCtxPopCurrent_v2)(&popped);
}

RelaxedCapture::RelaxedCapture() { is_set_ = DRIVER(cuThreadExchangeStreamCaptureMode)(&mode_) == cuda::kSuccess; }

RelaxedCapture::~RelaxedCapture() {
  if (is_set_) DRIVER(cuThreadExchangeStreamCaptureMode)(&mode_);
}

}  // namespace divvy::interpose
