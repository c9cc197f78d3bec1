#include "contexts.h"

#include "driver.h"
#include "streams.h"
#include "sync.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr int kMostContexts = 64;  // Tracked contexts; programs usually have one per device.

struct Known {
  cuda::Context context;
  unsigned device;
  std::uint64_t number;  // In the order of discovery.
  unsigned waiters;      // Threads that wait for all its work.
};

std::uint64_t g_next_number = 1;
Mutex g_mutex;
Known g_known[kMostContexts];
int g_count = 0;
__attribute__((tls_model("initial-exec"))) thread_local cuda::Context t_noted = nullptr;

/// Requires the mutex.
Known* Find(cuda::Context context) {
  for (int i = 0; i < g_count; ++i) {
    if (g_known[i].context == context) return &g_known[i];
  }
  return nullptr;
}

/// Returns the next context of the device after `number`, or null. It is not forgotten before Leave.
cuda::Context Enter(unsigned device, std::uint64_t& number) {
  const Locked locked(g_mutex);
  Known* next = nullptr;
  for (int i = 0; i < g_count; ++i) {
    Known& known = g_known[i];
    if (known.device == device && known.number > number && (next == nullptr || known.number < next->number)) {
      next = &known;
    }
  }
  if (next == nullptr) return nullptr;
  number = next->number;
  ++next->waiters;
  return next->context;
}

void Leave(cuda::Context context) {
  const Locked locked(g_mutex);
  if (Known* const known = Find(context)) --known->waiters;
}

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
  if (g_count < kMostContexts) g_known[g_count++] = {context, device, g_next_number++, 0};
}

void NoteCurrentContext() {
  cuda::Context context = nullptr;
  if (DRIVER(cuCtxGetCurrent)(&context) != cuda::kSuccess || context == nullptr || context == t_noted) return;
  cuda::Device ordinal = -1;
  if (DRIVER(cuCtxGetDevice)(&ordinal) == cuda::kSuccess) NoteContext(context, DeviceOf(ordinal));
}

unsigned DeviceOfContext(cuda::Context context) {
  const Locked locked(g_mutex);
  const Known* const known = Find(context);
  return known == nullptr ? kNotOurs : known->device;
}

void ForgetContext(cuda::Context context) {
  const Uncancelled uncancelled;
  t_noted = nullptr;
  for (;;) {
    {
      const Locked locked(g_mutex);
      Known* const known = Find(context);
      if (known == nullptr) return;
      if (known->waiters == 0) {
        *known = g_known[--g_count];
        return;
      }
    }
    const timespec pause = {0, 100'000};
    nanosleep(&pause, nullptr);
  }
}

void ForgetContexts() {
  g_mutex.Renew();
  g_count = 0;
  t_noted = nullptr;
}

cuda::Return SynchroniseDevice(unsigned device) {
  // Waits without holding the lock, because the device may wait for threads of the program that need the lock.
  cuda::Return first = cuda::kSuccess;
  std::uint64_t number = 0;
  for (cuda::Context context = Enter(device, number); context != nullptr; context = Enter(device, number)) {
    const cuda::Return result = Synchronise(context);
    Leave(context);
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
