#include "streams.h"

#include <atomic>

#include "contexts.h"
#include "driver.h"
#include "gate.h"
#include "hooks.h"
#include "sync.h"
#include "table.h"

namespace divvy::interpose {

namespace {

struct Known {
  cuda::Context context;
};

Mutex g_mutex;
Table<Known> g_streams;
std::atomic<int> g_thread_captures{0};

bool IsCapturing(cuda::Stream stream) {
  int status = 0;
  return DRIVER(cuStreamIsCapturing)(stream, &status) == cuda::kSuccess && status != cuda::kCaptureNone;
}

struct Captures {
  bool is_any = false;
  bool is_blocking = false;  // The legacy stream would wait for it, so the legacy stream must not be waited for.
};

bool IsOf(const Known& known, cuda::Context context) { return known.context == nullptr || known.context == context; }

/// Requires the mutex.
Captures CapturesIn(cuda::Context context) {
  Captures captures;
  if (g_thread_captures.load() > 0) captures = {true, true};
  g_streams.ForEach([&](std::uint64_t key, const Known& known) {
    const auto stream = reinterpret_cast<cuda::Stream>(key);  // NOLINT
    unsigned flags = 0;
    if (!IsOf(known, context) || !IsCapturing(stream)) return;
    captures.is_any = true;
    if (DRIVER(cuStreamGetFlags)(stream, &flags) != cuda::kSuccess || (flags & cuda::kStreamNonBlocking) == 0) {
      captures.is_blocking = true;
    }
  });
  return captures;
}

/// Queries all streams that are not captured; kNotReady means that one has pending work. Holds the lock, so that none
/// is destroyed meanwhile, but does not wait.
cuda::Return QueryStreams(cuda::Context context) {
  const Locked locked(g_mutex);
  cuda::Return first = cuda::kSuccess;
  g_streams.ForEach([&](std::uint64_t key, const Known& known) {
    const auto stream = reinterpret_cast<cuda::Stream>(key);  // NOLINT
    if (!IsOf(known, context) || IsCapturing(stream)) return;
    const cuda::Return result = DRIVER(cuStreamQuery)(stream);
    if (first == cuda::kSuccess || result == cuda::kNotReady) first = result;
  });
  return first;
}

}  // namespace

void NoteStream(cuda::Stream stream, cuda::Context context) {
  const Locked locked(g_mutex);
  g_streams.Put(reinterpret_cast<std::uint64_t>(stream), {context});
}

void ForgetStream(cuda::Stream stream) {
  const Locked locked(g_mutex);
  g_streams.Remove(reinterpret_cast<std::uint64_t>(stream));
}

void NoteThreadCapture(int change) { g_thread_captures.fetch_add(change); }

cuda::Return SynchroniseCurrentContext() {
  const Uncancelled uncancelled;
  const RelaxedCapture relaxed;
  cuda::Context context = nullptr;
  DRIVER(cuCtxGetCurrent)(&context);
  Captures captures;
  {
    const Locked locked(g_mutex);
    captures = CapturesIn(context);
  }
  if (!captures.is_any) return DRIVER(cuCtxSynchronize)();
  cuda::Return first = captures.is_blocking ? cuda::kNotReady : DRIVER(cuStreamSynchronize)(nullptr);
  cuda::Return result = cuda::kSuccess;
  while ((result = QueryStreams(context)) == cuda::kNotReady) {
    const timespec pause = {0, 50'000};
    nanosleep(&pause, nullptr);
  }
  if (first == cuda::kSuccess) first = result;
  return first;
}

void ForgetStreams() {
  g_mutex.Renew();
  g_streams.Abandon();
  g_thread_captures.store(0);
}

namespace {

template <typename Create>
cuda::Return Created(cuda::Stream* stream, Create create) {
  const Inside inside(Touch::kOther);
  const cuda::Return result = create();
  if (result != cuda::kSuccess || !inside.is_ours()) return result;
  cuda::Context context = nullptr;
  DRIVER(cuCtxGetCurrent)(&context);
  NoteStream(*stream, context);
  return result;
}

template <typename Destroy>
cuda::Return Destroyed(cuda::Stream stream, Destroy destroy) {
  const Inside inside(Touch::kOther);
  if (inside.is_ours()) ForgetStream(stream);
  return destroy();
}

template <typename Call>
cuda::Return Captured(cuda::Stream stream, int change, Call call) {
  const Inside inside(Touch::kOther);
  const bool is_own = stream == OwnStream(nullptr);
  const bool is_captured = is_own && IsCapturing(stream);
  const cuda::Return result = call();
  // Even if cuStreamEndCapture fails, the capture has ended.
  if (inside.is_ours() && is_own && IsCapturing(stream) != is_captured) NoteThreadCapture(change);
  return result;
}

}  // namespace

cuda::Return cuStreamCreate_hook(cuda::Stream* stream, unsigned flags) {
  return Created(stream, [&] { return DRIVER(cuStreamCreate)(stream, flags); });
}
cuda::Return cuStreamCreateWithPriority_hook(cuda::Stream* stream, unsigned flags, int priority) {
  return Created(stream, [&] { return DRIVER(cuStreamCreateWithPriority)(stream, flags, priority); });
}
cuda::Return cuStreamDestroy_hook(cuda::Stream stream) {
  return Destroyed(stream, [&] { return DRIVER(cuStreamDestroy)(stream); });
}
cuda::Return cuStreamDestroy_v2_hook(cuda::Stream stream) {
  return Destroyed(stream, [&] { return DRIVER(cuStreamDestroy_v2)(stream); });
}

#define CAPTURE(suffix, own)                                                                                           \
  cuda::Return cuStreamBeginCapture##suffix##_hook(cuda::Stream stream) {                                              \
    return Captured(own, 1, [&] { return DRIVER(cuStreamBeginCapture##suffix)(stream); });                             \
  }                                                                                                                    \
  cuda::Return cuStreamBeginCapture_v2##suffix##_hook(cuda::Stream stream, int mode) {                                 \
    return Captured(own, 1, [&] { return DRIVER(cuStreamBeginCapture_v2##suffix)(stream, mode); });                    \
  }                                                                                                                    \
  cuda::Return cuStreamBeginCaptureToGraph##suffix##_hook(cuda::Stream stream, cuda::Graph graph,                      \
                                                          const cuda::GraphNode* nodes, const cuda::EdgeData* edges,   \
                                                          size_t count, int mode) {                                    \
    return Captured(own, 1, [&] {                                                                                      \
      return DRIVER(cuStreamBeginCaptureToGraph##suffix)(stream, graph, nodes, edges, count, mode);                    \
    });                                                                                                                \
  }                                                                                                                    \
  cuda::Return cuStreamBeginRecaptureToGraph##suffix##_hook(cuda::Word stream_word, cuda::Word mode, cuda::Word graph, \
                                                            cuda::Word callback, cuda::Word argument) {                \
    auto* const stream = reinterpret_cast<cuda::Stream>(stream_word); /* NOLINT */                                     \
    return Captured(own, 1, [&] {                                                                                      \
      return DRIVER(cuStreamBeginRecaptureToGraph##suffix)(stream_word, mode, graph, callback, argument);              \
    });                                                                                                                \
  }                                                                                                                    \
  cuda::Return cuStreamEndCapture##suffix##_hook(cuda::Stream stream, cuda::Graph* graph) {                            \
    return Captured(own, -1, [&] { return DRIVER(cuStreamEndCapture##suffix)(stream, graph); });                       \
  }
CAPTURE(, stream)
CAPTURE(_ptsz, OwnStream(stream))
#undef CAPTURE

}  // namespace divvy::interpose
