// Sharing with OpenGL, EGL and VDPAU. The driver cannot save such memory.
#include "contexts.h"
#include "gate.h"
#include "hooks.h"
#include "link.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

template <typename Call>
cuda::Return Shared(Call call) {
  if (!IsNested() && IsShared()) {
    BeforePinning(share::kGraphicsShared);
    SetFlags(share::kGraphicsShared);
  }
  const Inside inside(Touch::kOther);
  const cuda::Return result = call();
  if (result == cuda::kSuccess && inside.is_ours()) NoteCurrentContext();  // Some of these calls create a context.
  return result;
}

}  // namespace

using cuda::Word;

#define SHARED(symbol, parameters, arguments)                \
  cuda::Return symbol##_hook parameters {                    \
    return Shared([&] { return DRIVER(symbol) arguments; }); \
  }
SHARED(cuGraphicsMapResources, (Word a, Word b, Word c), (a, b, c))
SHARED(cuGraphicsMapResources_ptsz, (Word a, Word b, Word c), (a, b, c))
SHARED(cuGraphicsGLRegisterBuffer, (Word a, Word b, Word c), (a, b, c))
SHARED(cuGraphicsGLRegisterImage, (Word a, Word b, Word c, Word d), (a, b, c, d))
SHARED(cuGraphicsEGLRegisterImage, (Word a, Word b, Word c), (a, b, c))
SHARED(cuGraphicsVDPAURegisterVideoSurface, (Word a, Word b, Word c), (a, b, c))
SHARED(cuGraphicsVDPAURegisterOutputSurface, (Word a, Word b, Word c), (a, b, c))
SHARED(cuGLInit, (), ())
SHARED(cuGLCtxCreate_v2, (Word a, Word b, Word c), (a, b, c))
SHARED(cuGLRegisterBufferObject, (Word a), (a))
SHARED(cuVDPAUCtxCreate_v2, (Word a, Word b, Word c, Word d, Word e), (a, b, c, d, e))
SHARED(cuEGLStreamConsumerConnect, (Word a, Word b), (a, b))
SHARED(cuEGLStreamConsumerConnectWithFlags, (Word a, Word b, Word c), (a, b, c))
SHARED(cuEGLStreamProducerConnect, (Word a, Word b, Word c, Word d), (a, b, c, d))
SHARED(cuEventCreateFromEGLSync, (Word a, Word b, Word c), (a, b, c))
#undef SHARED

}  // namespace divvy::interpose
