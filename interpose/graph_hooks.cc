// Graphs that allocate: counted when they are instantiated, as much as their nodes ask for.
#include <stdlib.h>

#include "gate.h"
#include "hooks.h"
#include "link.h"
#include "memory.h"
#include "pools.h"
#include "records.h"
#include "sync.h"
#include "table.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr int kMostDepth = 8;  // Of graphs in graphs.

struct Promise {
  std::uint64_t bytes;
  unsigned device;
};

Mutex g_mutex;
Table<Promise> g_promises;

cuda::Return ChildOf(cuda::GraphNode node, cuda::Graph& child) {
  return DRIVER(cuGraphChildGraphNodeGetGraph)(reinterpret_cast<cuda::Word>(node),
                                               reinterpret_cast<cuda::Word>(&child));
}

std::uint64_t AllocatedBy(cuda::Graph graph, int depth) {
  size_t count = 0;
  if (depth > kMostDepth || DRIVER(cuGraphGetNodes)(graph, nullptr, &count) != cuda::kSuccess || count == 0) return 0;
  auto* const nodes = static_cast<cuda::GraphNode*>(calloc(count, sizeof(cuda::GraphNode)));
  if (nodes == nullptr) return 0;
  std::uint64_t bytes = 0;
  if (DRIVER(cuGraphGetNodes)(graph, nodes, &count) != cuda::kSuccess) count = 0;
  for (size_t i = 0; i < count; ++i) {
    int type = -1;
    if (DRIVER(cuGraphNodeGetType)(nodes[i], &type) != cuda::kSuccess) continue;
    cuda::AllocNode alloc{};
    cuda::Graph child = nullptr;
    if (type == cuda::kNodeAlloc && DRIVER(cuGraphMemAllocNodeGetParams)(nodes[i], &alloc) == cuda::kSuccess) {
      bytes += alloc.bytes;
    }
    if (type == cuda::kNodeGraph && ChildOf(nodes[i], child) == cuda::kSuccess) {
      bytes += AllocatedBy(child, depth + 1);
    }
  }
  free(nodes);
  return bytes;
}

template <typename Call>
cuda::Return Instantiated(const cuda::GraphExec* exec, cuda::Graph graph, Call call) {
  unsigned device = kNotOurs;
  std::uint64_t bytes = 0;
  {
    const Inside inside(Touch::kOther);
    if (inside.is_ours() && exec != nullptr) device = inside.device();
    bytes = device == kNotOurs ? 0 : AllocatedBy(graph, 0);
    if (bytes == 0) return call();
  }
  cuda::Return result = PromiseGraphMemory(device, bytes);
  if (result != cuda::kSuccess) return result;
  const Inside inside(Touch::kOther, device);
  result = call();
  if (result == cuda::kSuccess) {
    const Locked locked(g_mutex);
    g_promises.Put(KeyOf(*exec), {bytes, device});
  } else {
    EndGraphPromise(device, bytes);
  }
  return result;
}

}  // namespace

cuda::Return cuGraphInstantiate_hook(cuda::GraphExec* exec, cuda::Graph graph, cuda::GraphNode* error, char* log,
                                     size_t size) {
  return Instantiated(exec, graph, [&] { return DRIVER(cuGraphInstantiate)(exec, graph, error, log, size); });
}
cuda::Return cuGraphInstantiate_v2_hook(cuda::GraphExec* exec, cuda::Graph graph, cuda::GraphNode* error, char* log,
                                        size_t size) {
  return Instantiated(exec, graph, [&] { return DRIVER(cuGraphInstantiate_v2)(exec, graph, error, log, size); });
}
cuda::Return cuGraphInstantiateWithFlags_hook(cuda::GraphExec* exec, cuda::Graph graph, unsigned long long flags) {
  return Instantiated(exec, graph, [&] { return DRIVER(cuGraphInstantiateWithFlags)(exec, graph, flags); });
}
cuda::Return cuGraphInstantiateWithParams_hook(cuda::GraphExec* exec, cuda::Graph graph,
                                               cuda::InstantiateOptions* options) {
  return Instantiated(exec, graph, [&] { return DRIVER(cuGraphInstantiateWithParams)(exec, graph, options); });
}
cuda::Return cuGraphInstantiateWithParams_ptsz_hook(cuda::GraphExec* exec, cuda::Graph graph,
                                                    cuda::InstantiateOptions* options) {
  return Instantiated(exec, graph, [&] { return DRIVER(cuGraphInstantiateWithParams_ptsz)(exec, graph, options); });
}

cuda::Return cuGraphExecDestroy_hook(cuda::GraphExec exec) {
  const Inside inside(Touch::kOther);
  Promise promise{};
  if (inside.is_ours()) {
    const Locked locked(g_mutex);
    if (const Promise* const found = g_promises.Find(KeyOf(exec))) {
      promise = *found;
      g_promises.Remove(KeyOf(exec));
    }
  }
  const cuda::Return result = DRIVER(cuGraphExecDestroy)(exec);
  EndGraphPromise(promise.device, promise.bytes);
  return result;
}

cuda::Return cuDeviceGraphMemTrim_hook(cuda::Device ordinal) {
  const unsigned device = IsNested() || !IsShared() ? kNotOurs : DeviceOf(ordinal);
  const Inside inside(Touch::kOther, device);
  const cuda::Return result = DRIVER(cuDeviceGraphMemTrim)(ordinal);
  if (device != kNotOurs) MeasureGraphMemory(device);
  return result;
}

void ForgetGraphs() {
  g_mutex.Renew();
  g_promises.Abandon();
}

}  // namespace divvy::interpose
