// Captures the commands submitted to a stream into a graph. Streams that wait for an event of a capturing stream join
// the capture.
#include "cuda_driver.h"

namespace divvy::cuda {

Return cuStreamBeginCapture_v2(Stream handle, int) {
  Call call;
  if (call.error != kSuccess) return call.error;
  Stream stream = call.Resolve(handle);
  if (stream == call.context->legacy) return kStreamCaptureUnsupported;
  if (stream->capture != nullptr) return kIllegalState;
  stream->capture = New<OpaqueGraph>();
  stream->capture->id = ++driver.next_id;
  stream->is_capture_origin = true;
  return kSuccess;
}
Return cuStreamBeginCapture(Stream stream) { return cuStreamBeginCapture_v2(stream, 0); }

Return cuStreamBeginCaptureToGraph(Stream handle, Graph graph, const GraphNode*, const EdgeData*, size_t, int) {
  Call call;
  if (call.error != kSuccess) return call.error;
  Stream stream = call.Resolve(handle);
  if (graph == nullptr || stream == call.context->legacy) return kInvalidValue;
  if (stream->capture != nullptr) return kIllegalState;
  stream->capture = graph;
  stream->is_capture_origin = true;
  return kSuccess;
}

Return cuStreamEndCapture(Stream handle, Graph* graph) {
  Call call;
  if (call.error != kSuccess) return call.error;
  Stream stream = call.Resolve(handle);
  if (graph == nullptr) return kInvalidValue;
  if (stream->capture == nullptr) return kIllegalState;
  if (!stream->is_capture_origin) return kStreamCaptureUnmatched;
  *graph = stream->capture;
  stream->is_capture_origin = false;
  for (Context context : driver.contexts) {
    for (Stream other : context->streams) {
      if (other->capture == *graph) other->capture = nullptr;
    }
  }
  if (!stream->is_capture_spoiled) return kSuccess;
  stream->is_capture_spoiled = false;
  *graph = nullptr;
  return kStreamCaptureInvalidated;
}

Return cuStreamIsCapturing(Stream handle, int* status) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (status == nullptr) return kInvalidValue;
  *status = call.Resolve(handle)->capture == nullptr ? kCaptureNone : kCaptureActive;
  return kSuccess;
}

Return cuStreamGetCaptureInfo_v3(Stream handle, int* status, unsigned long long* id, Graph* graph,
                                 const GraphNode** nodes, const EdgeData** edges, size_t* count) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (status == nullptr) return kInvalidValue;
  const Graph capture = call.Resolve(handle)->capture;
  *status = capture == nullptr ? kCaptureNone : kCaptureActive;
  if (id != nullptr) *id = capture == nullptr ? 0 : capture->id;
  if (graph != nullptr) *graph = capture;
  if (edges != nullptr) *edges = nullptr;
  const bool has_node = capture != nullptr && capture->nodes.count != 0;
  if (nodes != nullptr) *nodes = has_node ? capture->nodes.end() - 1 : nullptr;
  if (count != nullptr) *count = has_node ? 1 : 0;
  return kSuccess;
}
Return cuStreamGetCaptureInfo_v2(Stream stream, int* status, unsigned long long* id, Graph* graph,
                                 const GraphNode** nodes, size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, nullptr, count);
}
Return cuStreamGetCaptureInfo(Stream stream, int* status, unsigned long long* id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

Return cuThreadExchangeStreamCaptureMode(int* mode) {
  static __thread int current = 0;
  if (mode == nullptr || *mode < 0 || *mode > 2) return kInvalidValue;
  const int last = current;
  current = *mode;
  *mode = last;
  return kSuccess;
}

}  // namespace divvy::cuda
