// Context hooks: tracking of contexts and cleanup of their resources.
#include "contexts.h"
#include "gate.h"
#include "hooks.h"
#include "link.h"
#include "memory.h"
#include "place.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

/// `make` creates or retains a context of the device and stores it in `context`.
template <typename Make>
cuda::Return Made(cuda::Context* context, cuda::Device ordinal, Make make) {
  if (!IsShared()) return make();
  const unsigned device = DeviceOf(ordinal);
  const Inside inside(Touch::kOther, device);
  const cuda::Return result = make();
  if (result == cuda::kSuccess && context != nullptr && inside.is_ours()) NoteContext(*context, device);
  return result;
}

template <typename Destroy>
cuda::Return Destroyed(cuda::Context context, Destroy destroy) {
  if (!IsShared() || IsNested()) return destroy();
  const unsigned device = DeviceOfContext(context);
  const Inside inside(Touch::kOther, device == kNotOurs ? Inside::kCurrent : device);
  {
    // Forgets the context before the driver destroys it, because the driver may reuse the handle at once.
    const ContextOf current(context);
    if (!current.is_current()) return destroy();
    DRIVER(cuCtxSynchronize)();
    FreeContext(context);
  }
  ForgetContext(context);
  return destroy();
}

/// When a primary context loses its last reference, it is destroyed together with its allocations.
template <typename Release>
cuda::Return Released(cuda::Device ordinal, bool is_reset, Release release) {
  if (!IsShared() || IsNested()) return release();
  cuda::Context context = nullptr;
  unsigned flags = 0;
  int is_active = 0;
  const Inside inside(Touch::kOther, DeviceOf(ordinal));
  // Whether the program releases its last reference to the context is known only after the call. So this library
  // retains the context once more, and checks afterwards.
  if (DRIVER(cuDevicePrimaryCtxGetState)(ordinal, &flags, &is_active) != cuda::kSuccess || is_active == 0 ||
      DRIVER(cuDevicePrimaryCtxRetain)(&context, ordinal) != cuda::kSuccess) {
    return release();
  }
  if (is_reset) {
    DRIVER(cuDevicePrimaryCtxRelease_v2)(ordinal);
    FreeContext(context);
    ForgetContext(context);
    return release();
  }
  const cuda::Return result = release();
  DRIVER(cuDevicePrimaryCtxRelease_v2)(ordinal);
  if (DRIVER(cuDevicePrimaryCtxGetState)(ordinal, &flags, &is_active) == cuda::kSuccess && is_active == 0) {
    ForgetContext(context);
    FreeContext(context);
  }
  return result;
}

template <typename Set>
cuda::Return Current(Set set) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = set();
  if (result == cuda::kSuccess && inside.is_ours()) NoteCurrentContext();
  return result;
}

template <typename Change>
cuda::Return PeerChanged(cuda::Context peer, bool is_allowed, Change change) {
  if (is_allowed) BeforePinning(share::kPeers);
  const Inside inside(Touch::kOther);
  const cuda::Return result = change();
  if (result != cuda::kSuccess || !inside.is_ours()) return result;
  SetFlags(share::kPeers);
  cuda::Device mine = -1;
  cuda::Device theirs = -1;
  if (DRIVER(cuCtxGetDevice)(&mine) != cuda::kSuccess) return result;
  const ContextOf current(peer);
  if (current.is_current() && DRIVER(cuCtxGetDevice)(&theirs) == cuda::kSuccess) {
    // Peer access does not apply to mapped memory automatically; each mapping lists the allowed devices.
    SetPeer(DeviceOf(theirs), mine, is_allowed);
  }
  return result;
}

}  // namespace

cuda::Return cuInit_hook(unsigned flags) {
  if (IsNested()) return DRIVER(cuInit)(flags);
  JoinTenant();
  cuda::Return result = cuda::kSuccess;
  {
    const Settled settled;
    FollowTenant();
    result = DRIVER(cuInit)(flags);
    if (result == cuda::kSuccess) IsShared();
  }
  return result;
}

cuda::Return cuDevicePrimaryCtxRetain_hook(cuda::Context* context, cuda::Device ordinal) {
  return Made(context, ordinal, [&] { return DRIVER(cuDevicePrimaryCtxRetain)(context, ordinal); });
}
cuda::Return cuCtxCreate_hook(cuda::Context* context, unsigned flags, cuda::Device ordinal) {
  return Made(context, ordinal, [&] { return DRIVER(cuCtxCreate)(context, flags, ordinal); });
}
cuda::Return cuCtxCreate_v2_hook(cuda::Context* context, unsigned flags, cuda::Device ordinal) {
  return Made(context, ordinal, [&] { return DRIVER(cuCtxCreate_v2)(context, flags, ordinal); });
}
cuda::Return cuCtxCreate_v3_hook(cuda::Context* context, cuda::ExecAffinity* affinity, int count, unsigned flags,
                                 cuda::Device ordinal) {
  return Made(context, ordinal, [&] { return DRIVER(cuCtxCreate_v3)(context, affinity, count, flags, ordinal); });
}
cuda::Return cuCtxCreate_v4_hook(cuda::Context* context, cuda::ContextOptions* options, unsigned flags,
                                 cuda::Device ordinal) {
  return Made(context, ordinal, [&] { return DRIVER(cuCtxCreate_v4)(context, options, flags, ordinal); });
}

cuda::Return cuCtxDestroy_hook(cuda::Context context) {
  return Destroyed(context, [&] { return DRIVER(cuCtxDestroy)(context); });
}
cuda::Return cuCtxDestroy_v2_hook(cuda::Context context) {
  return Destroyed(context, [&] { return DRIVER(cuCtxDestroy_v2)(context); });
}
cuda::Return cuDevicePrimaryCtxRelease_hook(cuda::Device ordinal) {
  return Released(ordinal, false, [&] { return DRIVER(cuDevicePrimaryCtxRelease)(ordinal); });
}
cuda::Return cuDevicePrimaryCtxRelease_v2_hook(cuda::Device ordinal) {
  return Released(ordinal, false, [&] { return DRIVER(cuDevicePrimaryCtxRelease_v2)(ordinal); });
}
cuda::Return cuDevicePrimaryCtxReset_hook(cuda::Device ordinal) {
  return Released(ordinal, true, [&] { return DRIVER(cuDevicePrimaryCtxReset)(ordinal); });
}
cuda::Return cuDevicePrimaryCtxReset_v2_hook(cuda::Device ordinal) {
  return Released(ordinal, true, [&] { return DRIVER(cuDevicePrimaryCtxReset_v2)(ordinal); });
}

cuda::Return cuCtxSetCurrent_hook(cuda::Context context) {
  return Current([&] { return DRIVER(cuCtxSetCurrent)(context); });
}
cuda::Return cuCtxPushCurrent_hook(cuda::Context context) {
  return Current([&] { return DRIVER(cuCtxPushCurrent)(context); });
}
cuda::Return cuCtxPushCurrent_v2_hook(cuda::Context context) {
  return Current([&] { return DRIVER(cuCtxPushCurrent_v2)(context); });
}

cuda::Return cuCtxEnablePeerAccess_hook(cuda::Context peer, unsigned flags) {
  return PeerChanged(peer, true, [&] { return DRIVER(cuCtxEnablePeerAccess)(peer, flags); });
}
cuda::Return cuCtxDisablePeerAccess_hook(cuda::Context peer) {
  return PeerChanged(peer, false, [&] { return DRIVER(cuCtxDisablePeerAccess)(peer); });
}

}  // namespace divvy::interpose
