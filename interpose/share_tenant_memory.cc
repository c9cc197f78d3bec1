// The kinds of memory that share_tenant allocates, and its ways to look up the driver.
#include "share_tenant.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>

// A symbol of the program itself: resolved by the preloaded library, otherwise null.
namespace divvy::cuda {
extern "C" __attribute__((weak)) Return cuMemAlloc_v2(Pointer* pointer, size_t bytes);
}

namespace divvy::share_tenant {

namespace {

/// Returns the name of a symbol for cuGetProcAddress.
std::string BaseOf(std::string symbol) {
  for (const char* suffix : {"_ptsz", "_ptds", "_v2", "_v3"}) {
    const std::size_t length = std::strlen(suffix);
    if (symbol.size() > length && symbol.compare(symbol.size() - length, length, suffix) == 0) {
      symbol.resize(symbol.size() - length);
    }
  }
  return symbol;
}

cuda::AllocationProperties Here() {
  cuda::AllocationProperties properties{};
  properties.type = cuda::kAllocationPinned;
  properties.location = {cuda::kLocationDevice, 0};
  return properties;
}

cuda::Return MakeMapping(Thing& thing) {
  cuda::AllocationProperties properties = Here();
  if (thing.kind == "exportable") properties.handle_types = cuda::kHandlePosixFileDescriptor;
  const cuda::AccessRights rights = {{cuda::kLocationDevice, 0}, cuda::kAccessReadWrite};
  cuda::Return result = CU(cuMemCreate)(reinterpret_cast<cuda::Allocation*>(&thing.other), thing.bytes, &properties, 0);
  if (result != cuda::kSuccess) return result;
  CU(cuMemAddressReserve)(reinterpret_cast<cuda::Pointer*>(&thing.value), thing.bytes, 0, 0, 0);
  CU(cuMemMap)(thing.value, thing.bytes, 0, thing.other, 0);
  CU(cuMemSetAccess)(thing.value, thing.bytes, &rights, 1);
  return CU(cuMemRelease)(thing.other);  // The mapping keeps it alive.
}

cuda::Return MakeGraph(Thing& thing) {
  cuda::Graph graph = nullptr;
  cuda::GraphNode node = nullptr;
  cuda::GraphExec exec = nullptr;
  cuda::AllocNode alloc{};
  alloc.pool.type = cuda::kAllocationPinned;
  alloc.pool.location = {cuda::kLocationDevice, thing.kind == "graph1" ? 1 : 0};
  alloc.bytes = thing.bytes;
  CU(cuGraphCreate)(&graph, 0);
  cuda::Return result = CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &alloc);
  if (result != cuda::kSuccess) return result;
  CU(cuGraphAddMemFreeNode)(&node, graph, &node, 1, alloc.pointer);
  result = CU(cuGraphInstantiateWithFlags)(&exec, graph, 0);
  if (result != cuda::kSuccess) return result;
  thing.value = reinterpret_cast<std::uint64_t>(exec);
  result = CU(cuGraphLaunch)(exec, nullptr);
  return result == cuda::kSuccess ? CU(cuCtxSynchronize)() : result;
}

cuda::Return MakePool(Thing& thing) {
  cuda::PoolProperties properties{};
  properties.type = cuda::kAllocationPinned;
  properties.location = {cuda::kLocationDevice, thing.kind == "pool1" ? 1 : 0};
  cuda::Pool pool = nullptr;
  const cuda::Return result = CU(cuMemPoolCreate)(&pool, &properties);
  if (result != cuda::kSuccess) return result;
  thing.other = reinterpret_cast<std::uint64_t>(pool);
  return CU(cuMemAllocFromPoolAsync)(reinterpret_cast<cuda::Pointer*>(&thing.value), thing.bytes, pool, nullptr);
}

cuda::Return MakeArray(Thing& thing) {
  const cuda::Array3DShape shape = {1024, thing.bytes >> 12, 0, cuda::kFormatFloat, 1, 0};
  if (thing.kind == "mipmap") {
    return CU(cuMipmappedArrayCreate)(reinterpret_cast<cuda::MipmappedArray*>(&thing.value), &shape, 1);
  }
  return CU(cuArray3DCreate_v2)(reinterpret_cast<cuda::Array*>(&thing.value), &shape);
}

/// Creates memory to which this process keeps only a descriptor.
cuda::Return MakeDescriptor(std::uint64_t bytes, int& fd) {
  cuda::AllocationProperties properties = Here();
  properties.handle_types = cuda::kHandlePosixFileDescriptor;
  cuda::Allocation allocation = 0;
  cuda::Return result = CU(cuMemCreate)(&allocation, bytes, &properties, 0);
  if (result != cuda::kSuccess) return result;
  result = CU(cuMemExportToShareableHandle)(&fd, allocation, cuda::kHandlePosixFileDescriptor, 0);
  CU(cuMemRelease)(allocation);
  return result;
}

cuda::Return MakeImport(Thing& thing) {
  int fd = -1;
  cuda::Return result = MakeDescriptor(thing.bytes, fd);
  if (result != cuda::kSuccess) return result;
  result = CU(cuMemImportFromShareableHandle)(reinterpret_cast<cuda::Allocation*>(&thing.other),
                                              reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                              cuda::kHandlePosixFileDescriptor);
  close(fd);
  if (result != cuda::kSuccess) return result;
  CU(cuMemAddressReserve)(reinterpret_cast<cuda::Pointer*>(&thing.value), thing.bytes, 0, 0, 0);
  result = CU(cuMemMap)(thing.value, thing.bytes, 0, thing.other, 0);
  CU(cuMemRelease)(thing.other);
  return result;
}

cuda::Return MakeExternal(Thing& thing) {
  // Any handle from the driver will do, since only the counting is tested.
  int fd = -1;
  const cuda::Return result = MakeDescriptor(thing.bytes, fd);
  if (result != cuda::kSuccess) return result;
  cuda::ExternalMemoryHandle handle{};
  handle.type = cuda::kExternalOpaqueFd;
  handle.handle.fd = fd;
  handle.size = thing.bytes;
  return CU(cuImportExternalMemory)(reinterpret_cast<cuda::ExternalMemory*>(&thing.value), &handle);
}

}  // namespace

void* Find(const char* symbol) {
  if (g_lookup == "default") return dlsym(RTLD_DEFAULT, symbol);
  if (g_lookup == "next") return dlsym(RTLD_NEXT, symbol);
  if (g_lookup == "direct" && std::strcmp(symbol, "cuMemAlloc_v2") == 0)
    return reinterpret_cast<void*>(&cuda::cuMemAlloc_v2);
  if (g_lookup == "proc" || g_lookup == "proc-thread") {
    void* function = nullptr;
    cuda::ProcAddressResult found{};
    const auto get = reinterpret_cast<decltype(&cuda::cuGetProcAddress_v2)>(dlsym(g_cuda, "cuGetProcAddress_v2"));
    const auto flags = g_lookup == "proc" ? cuda::kProcLegacyStream : cuda::kProcPerThreadStream;
    get(BaseOf(symbol).c_str(), &function, 12040, flags, &found);
    return function;
  }
  if (g_lookup == "ptsz") {
    for (const char* suffix : {"_ptsz", "_ptds"}) {
      if (void* const own = dlsym(g_cuda, (std::string(symbol) + suffix).c_str())) return own;
    }
  }
  return dlsym(g_cuda, symbol);
}

cuda::Return Make(Thing& thing) {
  auto* const pointer = reinterpret_cast<cuda::Pointer*>(&thing.value);
  if (thing.kind == "plain") return CU(cuMemAlloc_v2)(pointer, thing.bytes);
  if (thing.kind == "pitch") {
    std::size_t pitch = 0;
    return CU(cuMemAllocPitch_v2)(pointer, &pitch, 1000, thing.bytes >> 10, 4);
  }
  if (thing.kind == "managed") return CU(cuMemAllocManaged)(pointer, thing.bytes, 1);
  if (thing.kind == "async") return CU(cuMemAllocAsync)(pointer, thing.bytes, nullptr);
  if (thing.kind == "pool" || thing.kind == "pool1") return MakePool(thing);
  if (thing.kind == "kept") {  // Like async, but the pool keeps freed memory.
    cuda::Pool pool = nullptr;
    std::uint64_t all = ~std::uint64_t{0};
    CU(cuDeviceGetMemPool)(&pool, 0);
    CU(cuMemPoolSetAttribute)(pool, cuda::kPoolReleaseThreshold, &all);
    return CU(cuMemAllocAsync)(pointer, thing.bytes, nullptr);
  }
  if (thing.kind == "array" || thing.kind == "mipmap") return MakeArray(thing);
  if (thing.kind == "mapping" || thing.kind == "exportable") return MakeMapping(thing);
  if (thing.kind == "external") return MakeExternal(thing);
  if (thing.kind == "import") return MakeImport(thing);
  if (thing.kind == "graph" || thing.kind == "graph1") return MakeGraph(thing);
  return cuda::kUnknown;
}

cuda::Return Unmake(const Thing& thing) {
  if (thing.kind == "array") return CU(cuArrayDestroy)(reinterpret_cast<cuda::Array>(thing.value));
  if (thing.kind == "mipmap") return CU(cuMipmappedArrayDestroy)(reinterpret_cast<cuda::MipmappedArray>(thing.value));
  if (thing.kind == "ipc") return CU(cuIpcCloseMemHandle)(thing.value);
  if (thing.kind == "mapping" || thing.kind == "exportable" || thing.kind == "import") {
    return CU(cuMemUnmap)(thing.value, thing.bytes);
  }
  if (thing.kind == "external") return CU(cuDestroyExternalMemory)(reinterpret_cast<cuda::ExternalMemory>(thing.value));
  if (thing.kind == "graph" || thing.kind == "graph1")
    return CU(cuGraphExecDestroy)(reinterpret_cast<cuda::GraphExec>(thing.value));
  if (thing.kind == "kept") {
    const cuda::Return result = CU(cuMemFreeAsync)(thing.value, nullptr);
    CU(cuStreamSynchronize)(nullptr);
    return result;
  }
  if (thing.kind == "async" || thing.kind == "pool" || thing.kind == "pool1") {
    const cuda::Return result = CU(cuMemFreeAsync)(thing.value, nullptr);
    CU(cuStreamSynchronize)(nullptr);
    if (thing.kind != "async") return CU(cuMemPoolDestroy)(reinterpret_cast<cuda::Pool>(thing.other));
    CU(cuMemPoolTrimTo)
    (
        [] {
          cuda::Pool pool = nullptr;
          CU(cuDeviceGetMemPool)(&pool, 0);
          return pool;
        }(),
        0);
    return result;
  }
  return CU(cuMemFree_v2)(thing.value);
}

}  // namespace divvy::share_tenant
