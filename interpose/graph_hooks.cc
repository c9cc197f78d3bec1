// Graphs with allocations: counted at instantiation, as much as their nodes request.
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

constexpr int kMostDepth = 8;  // Limit of nested graphs.

/// Bytes per device.
struct Promise {
  std::uint64_t bytes[share::kMaxDevices];
};

Mutex g_mutex;
Table<Promise> g_promises;

cuda::Return ChildOf(cuda::GraphNode node, cuda::Graph& child) {
  return DRIVER(cuGraphChildGraphNodeGetGraph)(reinterpret_cast<cuda::Word>(node),
                                               reinterpret_cast<cuda::Word>(&child));
}

/// Returns the device of a node's memory, independent of the current context. Host memory is not counted.
unsigned DeviceOfNode(const cuda::AllocNode& alloc) {
  const cuda::Location& location = alloc.pool.location;
  return location.type == cuda::kLocationDevice ? DeviceOf(location.id) : kNotOurs;
}

void AddAllocated(cuda::Graph graph, int depth, Promise& promise) {
  size_t count = 0;
  if (depth > kMostDepth || DRIVER(cuGraphGetNodes)(graph, nullptr, &count) != cuda::kSuccess || count == 0) return;
  auto* const nodes = static_cast<cuda::GraphNode*>(calloc(count, sizeof(cuda::GraphNode)));
  if (nodes == nullptr) return;
  if (DRIVER(cuGraphGetNodes)(graph, nodes, &count) != cuda::kSuccess) count = 0;
  for (size_t i = 0; i < count; ++i) {
    int type = -1;
    if (DRIVER(cuGraphNodeGetType)(nodes[i], &type) != cuda::kSuccess) continue;
    cuda::AllocNode alloc{};
    cuda::Graph child = nullptr;
    if (type == cuda::kNodeAlloc && DRIVER(cuGraphMemAllocNodeGetParams)(nodes[i], &alloc) == cuda::kSuccess) {
      const unsigned device = DeviceOfNode(alloc);
      if (device != kNotOurs) promise.bytes[device] += alloc.bytes;
    }
    if (type == cuda::kNodeGraph && ChildOf(nodes[i], child) == cuda::kSuccess) {
      AddAllocated(child, depth + 1, promise);
    }
  }
  free(nodes);
}

bool IsEmpty(const Promise& promise) {
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : promise.bytes) sum += bytes;
  return sum == 0;
}

/// `devices`: only the first `devices` devices.
void EndPromises(const Promise& promise, unsigned devices = share::kMaxDevices) {
  for (unsigned device = 0; device < devices; ++device) EndGraphPromise(device, promise.bytes[device]);
}

/// Registers all of it or nothing. Requires: not inside the gate.
cuda::Return MakePromises(const Promise& promise) {
  for (unsigned device = 0; device < share::kMaxDevices; ++device) {
    const cuda::Return result = PromiseGraphMemory(device, promise.bytes[device]);
    if (result == cuda::kSuccess) continue;
    const Inside inside(Touch::kOther);
    EndPromises(promise, device);
    return result;
  }
  return cuda::kSuccess;
}

template <typename Call>
cuda::Return Instantiated(const cuda::GraphExec* exec, cuda::Graph graph, Call call) {
  Promise promise{};
  {
    const Inside inside(Touch::kOther);
    if (inside.is_ours() && exec != nullptr) AddAllocated(graph, 0, promise);
    if (IsEmpty(promise)) return call();
  }
  cuda::Return result = MakePromises(promise);
  if (result != cuda::kSuccess) return result;
  const Inside inside(Touch::kOther);
  result = call();
  if (result == cuda::kSuccess) {
    const Locked locked(g_mutex);
    g_promises.Put(KeyOf(*exec), promise);
  } else {
    EndPromises(promise);
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
  EndPromises(promise);
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
