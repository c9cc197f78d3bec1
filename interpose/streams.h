// The streams of this process: while one is captured into a graph nobody may wait for its whole context (CUDA
// programming guide, "Prohibited and Unhandled Operations" of stream capture): that would spoil the capture.
#pragma once

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// `context`: where it is; null: it counts for all of them.
void NoteStream(cuda::Stream stream, cuda::Context context);
/// Before it is destroyed: nobody looks at it any more when this returns.
void ForgetStream(cuda::Stream stream);
/// A capture of a thread's own default stream begins (1) or ends (-1): other threads cannot ask for it.
void NoteThreadCapture(int change);

/// Waits for all that runs in the current context. While something is captured, for what may be waited for: kNotReady
/// then says that there may be more.
cuda::Return SynchroniseCurrentContext();

void ForgetStreams();

}  // namespace divvy::interpose
