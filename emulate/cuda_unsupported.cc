// Entry points that the stand-in exports but does not implement. They return "not supported", as a real driver may.
#include "cuda_driver.h"

namespace divvy::cuda {

static Return Refuse() {
  divvy_cuda_per_thread = 0;
  return kNotSupported;
}

Return cuArrayGetPlane(Array*, Array, unsigned) { return Refuse(); }
Return cuDestroyExternalSemaphore(ExternalSemaphore) { return Refuse(); }
Return cuExternalMemoryGetMappedMipmappedArray(MipmappedArray*, ExternalMemory, const ExternalMipmap*) {
  return Refuse();
}
Return cuGraphAddChildGraphNode(GraphNode*, Graph, const GraphNode*, size_t, Graph) { return Refuse(); }
Return cuGraphAddDependencies(Graph, const GraphNode*, const GraphNode*, size_t) { return Refuse(); }
Return cuGraphAddDependencies_v2(Graph, const GraphNode*, const GraphNode*, const EdgeData*, size_t) {
  return Refuse();
}
Return cuGraphAddEventRecordNode(GraphNode*, Graph, const GraphNode*, size_t, Event) { return Refuse(); }
Return cuGraphAddEventWaitNode(GraphNode*, Graph, const GraphNode*, size_t, Event) { return Refuse(); }
Return cuGraphDestroyNode(GraphNode) { return Refuse(); }
Return cuGraphGetEdges(Graph, GraphNode*, GraphNode*, size_t*) { return Refuse(); }
Return cuGraphGetEdges_v2(Graph, GraphNode*, GraphNode*, EdgeData*, size_t*) { return Refuse(); }
Return cuGraphKernelNodeGetParams(GraphNode, KernelNodeV1*) { return Refuse(); }
Return cuGraphKernelNodeGetParams_v2(GraphNode, KernelNode*) { return Refuse(); }
Return cuGraphNodeGetDependencies_v2(GraphNode, GraphNode*, EdgeData*, size_t*) { return Refuse(); }
Return cuImportExternalSemaphore(ExternalSemaphore*, const ExternalSemaphoreHandle*) { return Refuse(); }
Return cuIpcGetEventHandle(IpcEvent*, Event) { return Refuse(); }
Return cuIpcOpenEventHandle(Event*, IpcEvent) { return Refuse(); }
Return cuLinkAddData(LinkState, int, void*, size_t, const char*, unsigned, int*, void**) { return Refuse(); }
Return cuLinkAddData_v2(LinkState, int, void*, size_t, const char*, unsigned, int*, void**) { return Refuse(); }
Return cuLinkAddFile(LinkState, int, const char*, unsigned, int*, void**) { return Refuse(); }
Return cuLinkAddFile_v2(LinkState, int, const char*, unsigned, int*, void**) { return Refuse(); }
Return cuLinkComplete(LinkState, void**, size_t*) { return Refuse(); }
Return cuLinkCreate(unsigned, int*, void**, LinkState*) { return Refuse(); }
Return cuLinkCreate_v2(unsigned, int*, void**, LinkState*) { return Refuse(); }
Return cuLinkDestroy(LinkState) { return Refuse(); }
Return cuMemGetHandleForAddressRange(void*, Pointer, size_t, int, unsigned long long) { return Refuse(); }
Return cuMemMapArrayAsync(ArrayMap*, unsigned, Stream) { return Refuse(); }
Return cuMemPoolExportPointer(PoolPointerExport*, Pointer) { return Refuse(); }
Return cuMemPoolExportToShareableHandle(void*, Pool, int, unsigned long long) { return Refuse(); }
Return cuMemPoolImportFromShareableHandle(Pool*, void*, int, unsigned long long) { return Refuse(); }
Return cuMemPoolImportPointer(Pointer*, Pool, PoolPointerExport*) { return Refuse(); }
Return cuMemRangeGetAttribute(void*, size_t, int, Pointer, size_t) { return Refuse(); }
Return cuStreamBatchMemOp(Stream, unsigned, BatchOperation*, unsigned) { return Refuse(); }
Return cuStreamBatchMemOp_v2(Stream, unsigned, BatchOperation*, unsigned) { return Refuse(); }
Return cuStreamUpdateCaptureDependencies(Stream, GraphNode*, size_t, unsigned) { return Refuse(); }
Return cuStreamUpdateCaptureDependencies_v2(Stream, GraphNode*, const EdgeData*, size_t, unsigned) { return Refuse(); }
Return cuStreamWaitValue32(Stream, Pointer, unsigned, unsigned) { return Refuse(); }
Return cuStreamWaitValue32_v2(Stream, Pointer, unsigned, unsigned) { return Refuse(); }
Return cuStreamWaitValue64(Stream, Pointer, unsigned long long, unsigned) { return Refuse(); }
Return cuStreamWaitValue64_v2(Stream, Pointer, unsigned long long, unsigned) { return Refuse(); }

}  // namespace divvy::cuda
