// Green contexts: a part of a device with its own context and streams.
#include "contexts.h"
#include "gate.h"
#include "hooks.h"
#include "streams.h"

namespace divvy::interpose {

namespace {

/// Returns the driver's context for it, or null.
cuda::Context ContextBehind(cuda::GreenContext green) {
  cuda::Context context = nullptr;
  return DRIVER(cuCtxFromGreenCtx)(&context, green) == cuda::kSuccess ? context : nullptr;
}

}  // namespace

cuda::Return cuCtxFromGreenCtx_hook(cuda::Context* context, cuda::GreenContext green) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuCtxFromGreenCtx)(context, green);
  if (result != cuda::kSuccess || !inside.is_ours()) return result;
  const ContextOf current(*context);
  if (current.is_current()) NoteCurrentContext();
  return result;
}

cuda::Return cuGreenCtxStreamCreate_hook(cuda::Stream* stream, cuda::GreenContext green, unsigned flags, int priority) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = DRIVER(cuGreenCtxStreamCreate)(stream, green, flags, priority);
  // Waiting for the device's primary context includes its green contexts, so a capture there counts for all.
  if (result == cuda::kSuccess && inside.is_ours()) NoteStream(*stream, nullptr);
  return result;
}

cuda::Return cuGreenCtxDestroy_hook(cuda::GreenContext green) {
  const Inside inside(Touch::kOther);
  if (inside.is_ours()) ForgetContext(ContextBehind(green));
  return DRIVER(cuGreenCtxDestroy)(green);
}

}  // namespace divvy::interpose
