// Green contexts: a part of a device with its own context and streams.
#include "contexts.h"
#include "gate.h"
#include "hooks.h"
#include "streams.h"

namespace divvy::interpose {

namespace {

/// Returns the driver's context for it, or null.
cuda::Context ContextBehind(cuda::Word green) {
  cuda::Context context = nullptr;
  const auto out = reinterpret_cast<cuda::Word>(&context);
  return DRIVER(cuCtxFromGreenCtx)(out, green) == cuda::kSuccess ? context : nullptr;
}

}  // namespace

cuda::Return cuCtxFromGreenCtx_hook(cuda::Word context, cuda::Word green) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuCtxFromGreenCtx)(context, green);
  if (result != cuda::kSuccess || !inside.is_ours()) return result;
  const ContextOf current(*reinterpret_cast<cuda::Context*>(context));  // NOLINT
  if (current.is_current()) NoteCurrentContext();
  return result;
}

cuda::Return cuGreenCtxStreamCreate_hook(cuda::Word stream, cuda::Word green, cuda::Word flags, cuda::Word priority) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuGreenCtxStreamCreate)(stream, green, flags, priority);
  // Waiting for the device's primary context includes its green contexts, so a capture there counts for all.
  if (result == cuda::kSuccess && inside.is_ours()) {
    NoteStream(*reinterpret_cast<cuda::Stream*>(stream), nullptr);  // NOLINT
  }
  return result;
}

cuda::Return cuGreenCtxDestroy_hook(cuda::Word green) {
  const Inside inside(Touch::kOther);
  if (inside.is_ours()) ForgetContext(ContextBehind(green));
  return DRIVER(cuGreenCtxDestroy)(green);
}

}  // namespace divvy::interpose
