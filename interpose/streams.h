// The streams of this process. While a stream is captured into a graph, waiting for its whole context would invalidate
// the capture (CUDA programming guide, "Prohibited and Unhandled Operations" of stream capture).
#pragma once

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// Records a CUDA stream that the program uses. `context`: the stream's context; null: the stream is used with every
/// context.
void NoteStream(cuda::Stream stream, cuda::Context context);
/// Forgets a stream; call this before it is destroyed. When the call returns, no thread of this library uses the stream
/// any more.
void ForgetStream(cuda::Stream stream);
/// Records that a thread begins (1) or ends (-1) a stream capture on its own default stream, which other threads cannot
/// query from the driver.
void NoteThreadCapture(int change);

/// Waits for all work in the current context. While a stream is being captured, waits only for streams for which that
/// is allowed. Returns kNotReady if work may remain.
cuda::Return SynchroniseCurrentContext();

void ForgetStreams();

}  // namespace divvy::interpose
