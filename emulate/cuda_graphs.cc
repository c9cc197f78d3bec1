// Graphs: commands that can be submitted to a stream repeatedly. Nodes run in the order of their addition. This order
// always satisfies the dependencies, since a node can depend only on earlier nodes.
//
// Graph memory: addresses are reserved when the node is added, memory is allocated at the first launch. As in CUDA,
// freed memory stays with the device's graphs, and counts, until cuDeviceGraphMemTrim.
#include <sys/mman.h>

#include "cuda_driver.h"

namespace divvy::cuda {
namespace {

bool IsDevice(Device device) { return device >= 0 && static_cast<unsigned>(device) < driver.gpu_count; }

void FreeNode(GraphNode node) {
  if (node->command != nullptr) FreeCommand(node->command);
  if (node->range != nullptr && --node->range->references == 0 && !node->range->is_used) {
    if (node->range->physical == nullptr) munmap(node->range->start, node->range->bytes);
    RemoveRange(node->range);
  }
  node->before.Free();
  free(node);
}

void FreeGraph(Graph graph) {
  for (GraphNode node : graph->nodes) FreeNode(node);
  graph->nodes.Free();
  free(graph);
}

Graph CloneGraph(Graph graph) {
  auto* clone = New<OpaqueGraph>();
  clone->id = ++driver.next_id;
  for (GraphNode node : graph->nodes) {
    auto* copy = New<OpaqueGraphNode>();
    *copy = *node;
    copy->graph = clone;
    copy->before = {};
    copy->origin = node;
    if (node->command != nullptr) copy->command = CloneCommand(node->command);
    if (node->range != nullptr) ++node->range->references;
    clone->nodes.Add(copy);
  }
  return clone;
}

size_t ReservedOf(Device device, bool only_used) {
  size_t bytes = 0;
  for (const Range* range : driver.ranges) {
    if (range->kind != kOfGraph || range->device != device || range->physical == nullptr) continue;
    if (!only_used || range->is_used) bytes += range->bytes;
  }
  return bytes;
}

bool IsFreedIn(const OpaqueGraph& graph, const char* start) {
  for (const GraphNode node : graph.nodes) {
    if (node->type == kNodeFree && node->freed == reinterpret_cast<Pointer>(start)) return true;
  }
  return false;
}

// Allocates memory behind the addresses of an allocation node.
Return Back(Range* range) {
  if (range->is_used) return kInvalidValue;  // Not freed since the last launch.
  if (range->physical == nullptr) {
    Return error = kSuccess;
    Physical* physical = MakePhysical(range->device, range->bytes, false, &error);
    if (physical == nullptr) return error;
    void* mapped = mmap(range->start, range->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                        physical->fd, physical->offset);
    if (mapped == MAP_FAILED) {
      Release(physical);
      return kMapFailed;
    }
    range->physical = physical;
    range->access = kAccessReadWrite;
    const size_t reserved = ReservedOf(range->device, false);
    if (reserved > driver.graph_reserved_high[range->device]) driver.graph_reserved_high[range->device] = reserved;
  }
  range->is_used = true;
  return kSuccess;
}

Return AddSimple(GraphNode* out, Graph graph, const GraphNode* before, size_t count, GraphNodeType type,
                 Command* command) {
  Call call;
  if (call.error == kSuccess && (out == nullptr || graph == nullptr)) call.error = kInvalidValue;
  if (call.error != kSuccess) {
    if (command != nullptr) FreeCommand(command);
    return call.error;
  }
  *out = AddNode(graph, type, command, before, count);
  return kSuccess;
}

Function FunctionOf(const KernelNode& node) {
  return node.function != nullptr ? node.function : reinterpret_cast<Function>(node.kernel);
}

KernelNode Newer(const KernelNodeV1& node) {
  KernelNode out = {};
  memcpy(static_cast<void*>(&out), &node, sizeof(node));
  return out;
}

Return SetKernel(GraphNode node, const KernelNode* wanted) {
  if (node == nullptr || wanted == nullptr || node->type != kNodeKernel) return kInvalidValue;
  Command* command = MakeLaunch(FunctionOf(*wanted), wanted->parameters, wanted->extra);
  if (command == nullptr) return kInvalidValue;
  FreeCommand(node->command);
  node->command = command;
  return kSuccess;
}

Return AddAlloc(GraphNode* out, Graph graph, const GraphNode* before, size_t count, AllocNode* wanted) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (out == nullptr || graph == nullptr || wanted == nullptr || wanted->bytes == 0) return kInvalidValue;
  if (!IsDevice(wanted->pool.location.id)) return kInvalidDevice;
  const size_t bytes = RoundUp(wanted->bytes, kChunk);
  void* found = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return kOutOfMemory;
  auto* range = New<Range>();
  range->start = static_cast<char*>(found);
  range->bytes = bytes;
  range->asked = wanted->bytes;
  range->kind = kOfGraph;
  range->context = call.context;
  range->device = wanted->pool.location.id;
  range->references = 1;
  AddRange(range);
  wanted->pointer = reinterpret_cast<Pointer>(found);
  GraphNode node = AddNode(graph, kNodeAlloc, nullptr, before, count);
  node->range = range;
  node->alloc = *wanted;
  *out = node;
  return kSuccess;
}

Return AddFree(GraphNode* out, Graph graph, const GraphNode* before, size_t count, Pointer pointer) {
  Command* command = NewCommand(kFreePooled);
  command->target = pointer;
  const Return added = AddSimple(out, graph, before, count, kNodeFree, command);
  if (added == kSuccess) (*out)->freed = pointer;
  return added;
}

Return Instantiate(GraphExec* exec, Graph graph, unsigned long long flags) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (exec == nullptr || graph == nullptr) return kInvalidValue;
  auto* made = New<OpaqueGraphExec>();
  made->graph = CloneGraph(graph);
  made->flags = flags;
  *exec = made;
  return kSuccess;
}

}  // namespace

GraphNode AddNode(Graph graph, GraphNodeType type, Command* command, const GraphNode* before, size_t count) {
  auto* node = New<OpaqueGraphNode>();
  node->type = type;
  node->graph = graph;
  node->command = command;
  for (size_t i = 0; i < count; ++i) node->before.Add(before[i]);
  graph->nodes.Add(node);
  return node;
}

Return cuGraphCreate(Graph* graph, unsigned flags) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (graph == nullptr || flags != 0) return kInvalidValue;
  *graph = New<OpaqueGraph>();
  (*graph)->id = ++driver.next_id;
  return kSuccess;
}

Return cuGraphDestroy(Graph graph) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (graph == nullptr) return kInvalidValue;
  FreeGraph(graph);
  return kSuccess;
}

Return cuGraphClone(Graph* clone, Graph graph) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (clone == nullptr || graph == nullptr) return kInvalidValue;
  *clone = CloneGraph(graph);
  return kSuccess;
}

Return cuGraphAddKernelNode_v2(GraphNode* out, Graph graph, const GraphNode* before, size_t count,
                               const KernelNode* kernel) {
  if (kernel == nullptr) return kInvalidValue;
  Command* command = MakeLaunch(FunctionOf(*kernel), kernel->parameters, kernel->extra);
  return command == nullptr ? kInvalidValue : AddSimple(out, graph, before, count, kNodeKernel, command);
}
Return cuGraphAddKernelNode(GraphNode* out, Graph graph, const GraphNode* before, size_t count,
                            const KernelNodeV1* kernel) {
  if (kernel == nullptr) return kInvalidValue;
  const KernelNode newer = Newer(*kernel);
  return cuGraphAddKernelNode_v2(out, graph, before, count, &newer);
}

Return cuGraphAddMemcpyNode(GraphNode* out, Graph graph, const GraphNode* before, size_t count, const Copy3D* copy,
                            Context) {
  if (copy == nullptr) return kInvalidValue;
  Command* command = NewCommand(kCopyShaped);
  command->shaped = New<Copy3D>();
  *command->shaped = *copy;
  return AddSimple(out, graph, before, count, kNodeMemcpy, command);
}

Return cuGraphAddMemsetNode(GraphNode* out, Graph graph, const GraphNode* before, size_t count, const MemsetNode* set,
                            Context) {
  if (set == nullptr) return kInvalidValue;
  Command* command = NewCommand(kFill);
  command->target = set->target;
  command->pitch = set->pitch;
  command->rows = set->height;
  command->bytes = set->width * set->element_bytes;
  command->value = set->value;
  command->element = set->element_bytes;
  return AddSimple(out, graph, before, count, kNodeMemset, command);
}

Return cuGraphAddHostNode(GraphNode* out, Graph graph, const GraphNode* before, size_t count, const HostNode* host) {
  if (host == nullptr) return kInvalidValue;
  Command* command = NewCommand(kCallHost);
  command->host = host->function;
  command->user = host->argument;
  return AddSimple(out, graph, before, count, kNodeHost, command);
}

Return cuGraphAddEmptyNode(GraphNode* out, Graph graph, const GraphNode* before, size_t count) {
  return AddSimple(out, graph, before, count, kNodeEmpty, nullptr);
}

Return cuGraphAddMemAllocNode(GraphNode* out, Graph graph, const GraphNode* before, size_t count, AllocNode* alloc) {
  return AddAlloc(out, graph, before, count, alloc);
}
Return cuGraphAddMemFreeNode(GraphNode* out, Graph graph, const GraphNode* before, size_t count, Pointer pointer) {
  return AddFree(out, graph, before, count, pointer);
}

Return cuGraphAddNode(GraphNode* out, Graph graph, const GraphNode* before, size_t count, GraphNodeParams* wanted) {
  if (wanted == nullptr) return kInvalidValue;
  switch (wanted->type) {
    case kNodeKernel:
      return cuGraphAddKernelNode_v2(out, graph, before, count, &wanted->kernel);
    case kNodeAlloc:
      return AddAlloc(out, graph, before, count, &wanted->alloc);
    case kNodeFree:
      return AddFree(out, graph, before, count, wanted->free);
    case kNodeEmpty:
      return cuGraphAddEmptyNode(out, graph, before, count);
    default:
      return kNotSupported;
  }
}
Return cuGraphAddNode_v2(GraphNode* out, Graph graph, const GraphNode* before, const EdgeData*, size_t count,
                         GraphNodeParams* wanted) {
  return cuGraphAddNode(out, graph, before, count, wanted);
}

Return cuGraphMemAllocNodeGetParams(GraphNode node, AllocNode* out) {
  if (node == nullptr || out == nullptr || node->type != kNodeAlloc) return kInvalidValue;
  *out = node->alloc;
  return kSuccess;
}
Return cuGraphMemFreeNodeGetParams(GraphNode node, Pointer* out) {
  if (node == nullptr || out == nullptr || node->type != kNodeFree) return kInvalidValue;
  *out = node->freed;
  return kSuccess;
}

Return cuGraphNodeGetType(GraphNode node, int* type) {
  if (node == nullptr || type == nullptr) return kInvalidValue;
  *type = node->type;
  return kSuccess;
}

namespace {

Return ListNodes(const List<GraphNode>& nodes, GraphNode* out, size_t* count, bool only_roots) {
  if (count == nullptr) return kInvalidValue;
  size_t found = 0;
  for (GraphNode node : nodes) {
    if (only_roots && node->before.count != 0) continue;
    if (out != nullptr && found < *count) out[found] = node;
    ++found;
  }
  *count = found;
  return kSuccess;
}

}  // namespace

Return cuGraphGetNodes(Graph graph, GraphNode* out, size_t* count) {
  return graph == nullptr ? kInvalidValue : ListNodes(graph->nodes, out, count, false);
}
Return cuGraphGetRootNodes(Graph graph, GraphNode* out, size_t* count) {
  return graph == nullptr ? kInvalidValue : ListNodes(graph->nodes, out, count, true);
}
Return cuGraphNodeGetDependencies(GraphNode node, GraphNode* out, size_t* count) {
  return node == nullptr ? kInvalidValue : ListNodes(node->before, out, count, false);
}

Return cuGraphKernelNodeSetParams_v2(GraphNode node, const KernelNode* kernel) {
  Call call(Call::kInitialized);
  return call.error != kSuccess ? call.error : SetKernel(node, kernel);
}
Return cuGraphKernelNodeSetParams(GraphNode node, const KernelNodeV1* kernel) {
  if (kernel == nullptr) return kInvalidValue;
  const KernelNode newer = Newer(*kernel);
  return cuGraphKernelNodeSetParams_v2(node, &newer);
}
Return cuGraphExecKernelNodeSetParams_v2(GraphExec exec, GraphNode node, const KernelNode* kernel) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (exec == nullptr) return kInvalidValue;
  for (GraphNode own : exec->graph->nodes) {
    if (own->origin == node) return SetKernel(own, kernel);
  }
  return kInvalidValue;
}
Return cuGraphExecKernelNodeSetParams(GraphExec exec, GraphNode node, const KernelNodeV1* kernel) {
  if (kernel == nullptr) return kInvalidValue;
  const KernelNode newer = Newer(*kernel);
  return cuGraphExecKernelNodeSetParams_v2(exec, node, &newer);
}

Return cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long flags) {
  return Instantiate(exec, graph, flags);
}
Return cuGraphInstantiate(GraphExec* exec, Graph graph, GraphNode*, char*, size_t) {
  return Instantiate(exec, graph, 0);
}
Return cuGraphInstantiate_v2(GraphExec* exec, Graph graph, GraphNode*, char*, size_t) {
  return Instantiate(exec, graph, 0);
}
Return cuGraphInstantiateWithParams(GraphExec* exec, Graph graph, InstantiateOptions* options) {
  if (options == nullptr) return kInvalidValue;
  options->result = 0;
  options->error_node = nullptr;
  return Instantiate(exec, graph, options->flags);
}

Return cuGraphExecGetFlags(GraphExec exec, unsigned long long* flags) {
  if (exec == nullptr || flags == nullptr) return kInvalidValue;
  *flags = exec->flags;
  return kSuccess;
}

Return cuGraphExecUpdate(GraphExec exec, Graph graph, GraphNode* node, int* result) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (exec == nullptr || graph == nullptr) return kInvalidValue;
  FreeGraph(exec->graph);
  exec->graph = CloneGraph(graph);
  if (node != nullptr) *node = nullptr;
  if (result != nullptr) *result = 0;
  return kSuccess;
}
Return cuGraphExecUpdate_v2(GraphExec exec, Graph graph, UpdateResult* result) {
  if (result != nullptr) *result = {};
  return cuGraphExecUpdate(exec, graph, nullptr, nullptr);
}

Return cuGraphUpload(GraphExec exec, Stream) { return exec == nullptr ? kInvalidValue : kSuccess; }

Return cuGraphLaunch(GraphExec exec, Stream handle) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (exec == nullptr) return kInvalidValue;
  Stream stream = call.Resolve(handle);
  for (GraphNode node : exec->graph->nodes) {
    if (node->type != kNodeAlloc) continue;
    if ((exec->flags & kInstantiateAutoFree) != 0) node->range->is_used = false;
    // As in CUDA, a launch of the same graph runs after the previous one, which frees the memory.
    while (node->range->is_used && IsFreedIn(*exec->graph, node->range->start) && call.context->sticky == kSuccess) {
      WaitForChange();
    }
    const Return backed = Back(node->range);
    if (backed != kSuccess) return backed;
  }
  for (GraphNode node : exec->graph->nodes) {
    if (node->command == nullptr) continue;
    const Return submitted = Submit(stream, CloneCommand(node->command));
    if (submitted != kSuccess) return submitted;
  }
  return kSuccess;
}

Return cuGraphExecDestroy(GraphExec exec) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (exec == nullptr) return kInvalidValue;
  FreeGraph(exec->graph);
  free(exec);
  return kSuccess;
}

Return cuDeviceGraphMemTrim(Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!IsDevice(device)) return kInvalidDevice;
  for (Range* range : driver.ranges) {
    if (range->kind != kOfGraph || range->device != device || range->physical == nullptr || range->is_used) continue;
    mmap(range->start, range->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    Release(range->physical);
    range->physical = nullptr;
    range->access = kAccessNone;
  }
  return kSuccess;
}

Return cuDeviceGetGraphMemAttribute(Device device, int attribute, void* value) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!IsDevice(device)) return kInvalidDevice;
  if (value == nullptr || attribute < kGraphUsedNow || attribute > kGraphReservedHigh) return kInvalidValue;
  const uint64_t high = driver.graph_reserved_high[device];
  const uint64_t values[] = {ReservedOf(device, true), high, ReservedOf(device, false), high};
  memcpy(value, &values[attribute], sizeof(uint64_t));
  return kSuccess;
}

Return cuDeviceSetGraphMemAttribute(Device device, int attribute, void* value) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!IsDevice(device)) return kInvalidDevice;
  if (value == nullptr || (attribute != kGraphUsedHigh && attribute != kGraphReservedHigh)) return kInvalidValue;
  driver.graph_reserved_high[device] = ReservedOf(device, false);
  return kSuccess;
}

}  // namespace divvy::cuda
