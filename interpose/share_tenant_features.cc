// Features of the driver API, one function each: a fixed sequence of calls. The answer lists each call's result and the
// values that it read, which must be the same with and without the library, and ends with the number of wrong values.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "share_tenant.h"

namespace divvy::share_tenant {

namespace {

constexpr std::size_t kMegabyte = 1 << 20;

class Transcript {
 public:
  void Note(const char* name, std::uint64_t value) { text_ += std::string(name) + "=" + std::to_string(value) + " "; }
  void Expect(const char* name, std::uint64_t value, std::uint64_t expected) {
    Note(name, value);
    wrong_ += value == expected ? 0 : 1;
  }
  std::string Text() const { return text_ + "wrong=" + std::to_string(wrong_); }

 private:
  std::string text_;
  int wrong_ = 0;
};

/// Calls the driver and notes the result, which must be success.
#define DO(symbol, ...) transcript.Expect(#symbol, static_cast<std::uint64_t>(CU(symbol)(__VA_ARGS__)), 0)

unsigned WordAt(cuda::Pointer pointer) {
  unsigned word = 0;
  return CU(cuMemcpyDtoH_v2)(&word, pointer, sizeof word) == cuda::kSuccess ? word : ~0U;
}

cuda::Function Kernel(const char* nanoseconds) {
  const std::string ptx = std::string(".version 7.0\n.target sm_50\n.address_size 64\n// divvy takes step ") +
                          nanoseconds +
                          "\n.visible .global .align 4 .b8 table[64];\n.visible .entry step()\n{\n\tret;\n}\n";
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  CU(cuModuleLoadData)(&module, ptx.c_str());
  CU(cuModuleGetFunction)(&function, module, "step");
  return function;
}

cuda::Return Launch(cuda::Function function, cuda::Stream stream) {
  return CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

/// Memory that the program maps itself: two allocations, one of them at two addresses.
void Vmm(Transcript& transcript) {
  cuda::AllocationProperties properties{};
  properties.type = cuda::kAllocationPinned;
  properties.location = {cuda::kLocationDevice, 0};
  const cuda::AccessRights rights = {{cuda::kLocationDevice, 0}, cuda::kAccessReadWrite};
  std::size_t unit = 0;
  DO(cuMemGetAllocationGranularity, &unit, &properties, cuda::kGranularityMinimum);
  transcript.Expect("unit", unit, 2 * kMegabyte);
  cuda::Allocation first = 0;
  cuda::Allocation second = 0;
  cuda::Allocation again = 0;
  cuda::Pointer base = 0;
  DO(cuMemCreate, &first, unit, &properties, 0);
  DO(cuMemCreate, &second, 2 * unit, &properties, 0);
  DO(cuMemAddressReserve, &base, 4 * unit, 0, 0, 0);
  DO(cuMemMap, base, unit, 0, first, 0);
  DO(cuMemMap, base + unit, 2 * unit, 0, second, 0);
  DO(cuMemMap, base + 3 * unit, unit, 0, first, 0);
  DO(cuMemSetAccess, base, 4 * unit, &rights, 1);
  DO(cuMemsetD32_v2, base, 0x1234, unit / 4);
  DO(cuMemsetD32_v2, base + unit, 0x5678, unit / 2);
  transcript.Expect("alias", WordAt(base + 3 * unit + 8), 0x1234);
  transcript.Expect("second", WordAt(base + 3 * unit - 4), 0x5678);
  unsigned long long access = 0;
  DO(cuMemGetAccess, &access, &rights.location, base);
  transcript.Expect("access", access, cuda::kAccessReadWrite);
  DO(cuMemRetainAllocationHandle, &again, reinterpret_cast<void*>(base + unit));  // NOLINT
  transcript.Expect("same", again == second ? 1 : 0, 1);
  DO(cuMemRelease, again);
  DO(cuMemRelease, first);
  DO(cuMemRelease, second);
  DO(cuMemUnmap, base, 4 * unit);
  DO(cuMemAddressFree, base, 4 * unit);
}

std::uint64_t PoolValue(cuda::Pool pool, int attribute) {
  std::uint64_t value = 0;
  CU(cuMemPoolGetAttribute)(pool, attribute, &value);
  return value;
}

void Pools(Transcript& transcript) {
  cuda::PoolProperties properties{};
  properties.type = cuda::kAllocationPinned;
  properties.location = {cuda::kLocationDevice, 0};
  cuda::Pool pool = nullptr;
  cuda::Pool previous = nullptr;
  cuda::Pool current = nullptr;
  std::uint64_t all = ~std::uint64_t{0};
  cuda::Pointer a = 0;
  cuda::Pointer b = 0;
  DO(cuMemPoolCreate, &pool, &properties);
  DO(cuMemPoolSetAttribute, pool, cuda::kPoolReleaseThreshold, &all);
  DO(cuMemAllocFromPoolAsync, &a, 8 * kMegabyte, pool, nullptr);
  DO(cuMemsetD32_v2, a, 77, 2 * kMegabyte);
  transcript.Expect("content", WordAt(a + 8 * kMegabyte - 4), 77);
  transcript.Expect("used", PoolValue(pool, cuda::kPoolUsedNow), 8 * kMegabyte);
  DO(cuMemFreeAsync, a, nullptr);
  DO(cuStreamSynchronize, nullptr);
  transcript.Expect("used", PoolValue(pool, cuda::kPoolUsedNow), 0);
  transcript.Expect("kept", PoolValue(pool, cuda::kPoolReservedNow) >= 8 * kMegabyte ? 1 : 0, 1);
  DO(cuMemAllocFromPoolAsync, &b, 8 * kMegabyte, pool, nullptr);
  transcript.Expect("reused", a == b ? 1 : 0, 1);
  DO(cuMemFreeAsync, b, nullptr);
  DO(cuStreamSynchronize, nullptr);
  DO(cuMemPoolTrimTo, pool, 0);
  transcript.Expect("kept", PoolValue(pool, cuda::kPoolReservedNow), 0);
  DO(cuDeviceGetMemPool, &previous, 0);
  DO(cuDeviceSetMemPool, 0, pool);
  DO(cuMemAllocAsync, &a, 4 * kMegabyte, nullptr);
  transcript.Expect("used", PoolValue(pool, cuda::kPoolUsedNow), 4 * kMegabyte);
  DO(cuMemFreeAsync, a, nullptr);
  DO(cuStreamSynchronize, nullptr);
  DO(cuDeviceSetMemPool, 0, previous);
  DO(cuDeviceGetMemPool, &current, 0);
  transcript.Expect("restored", current == previous ? 1 : 0, 1);
  DO(cuMemPoolDestroy, pool);
}

/// A captured graph, launched several times, and a graph with memory of its own.
void Graphs(Transcript& transcript) {
  cuda::Stream stream = nullptr;
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  cuda::Pointer memory = 0;
  const cuda::Function kernel = Kernel("1000");
  int calls = 0;
  const auto count = [](void* number) { ++*static_cast<int*>(number); };
  DO(cuMemAlloc_v2, &memory, kMegabyte);
  DO(cuStreamCreate, &stream, cuda::kStreamNonBlocking);
  DO(cuStreamBeginCapture_v2, stream, 0);
  DO(cuMemsetD32Async, memory, 5, kMegabyte / 4, stream);
  transcript.Expect("launch", static_cast<std::uint64_t>(Launch(kernel, stream)), 0);
  DO(cuMemcpyDtoDAsync_v2, memory, memory + kMegabyte / 2, 4, stream);
  DO(cuLaunchHostFunc, stream, count, &calls);
  DO(cuStreamEndCapture, stream, &graph);
  std::size_t nodes = 0;
  DO(cuGraphGetNodes, graph, nullptr, &nodes);
  transcript.Expect("nodes", nodes, 4);
  DO(cuGraphInstantiateWithFlags, &exec, graph, 0);
  transcript.Expect("calls", static_cast<std::uint64_t>(calls), 0);
  for (int i = 0; i < 3; ++i) DO(cuGraphLaunch, exec, stream);
  DO(cuStreamSynchronize, stream);
  transcript.Expect("calls", static_cast<std::uint64_t>(calls), 3);
  transcript.Expect("content", WordAt(memory), 5);
  DO(cuGraphExecDestroy, exec);
  DO(cuGraphDestroy, graph);
  DO(cuStreamDestroy_v2, stream);
  DO(cuMemFree_v2, memory);

  cuda::AllocNode alloc{};
  alloc.pool.type = cuda::kAllocationPinned;
  alloc.pool.location = {cuda::kLocationDevice, 0};
  alloc.bytes = 8 * kMegabyte;
  cuda::GraphNode made = nullptr;
  cuda::GraphNode freed = nullptr;
  DO(cuGraphCreate, &graph, 0);
  DO(cuGraphAddMemAllocNode, &made, graph, nullptr, 0, &alloc);
  DO(cuGraphAddMemFreeNode, &freed, graph, &made, 1, alloc.pointer);
  DO(cuGraphInstantiateWithFlags, &exec, graph, 0);
  for (int i = 0; i < 2; ++i) DO(cuGraphLaunch, exec, nullptr);
  DO(cuCtxSynchronize);
  std::uint64_t kept = 0;
  DO(cuDeviceGetGraphMemAttribute, 0, cuda::kGraphReservedNow, &kept);
  transcript.Expect("kept", kept, 8 * kMegabyte);
  DO(cuGraphExecDestroy, exec);
  DO(cuGraphDestroy, graph);
  DO(cuDeviceGraphMemTrim, 0);
  DO(cuDeviceGetGraphMemAttribute, 0, cuda::kGraphReservedNow, &kept);
  transcript.Expect("kept", kept, 0);
}

void Priorities(Transcript& transcript) {
  int least = -1;
  int greatest = -1;
  DO(cuCtxGetStreamPriorityRange, &least, &greatest);
  const cuda::Function kernel = Kernel("1000000");
  cuda::Stream streams[2] = {};
  cuda::Event events[2] = {};
  for (int i = 0; i < 2; ++i) {
    int priority = 99;
    unsigned flags = 99;
    DO(cuStreamCreateWithPriority, &streams[i], cuda::kStreamNonBlocking, i == 0 ? least : greatest);
    DO(cuStreamGetPriority, streams[i], &priority);
    transcript.Expect("priority", static_cast<std::uint64_t>(priority),
                      static_cast<std::uint64_t>(i == 0 ? least : greatest));
    DO(cuStreamGetFlags, streams[i], &flags);
    transcript.Expect("flags", flags, cuda::kStreamNonBlocking);
    DO(cuEventCreate, &events[i], 0);
  }
  DO(cuEventRecord, events[0], streams[0]);
  transcript.Expect("launch", static_cast<std::uint64_t>(Launch(kernel, streams[0])), 0);
  DO(cuEventRecord, events[1], streams[0]);
  DO(cuStreamWaitEvent, streams[1], events[1], 0);
  transcript.Expect("launch", static_cast<std::uint64_t>(Launch(kernel, streams[1])), 0);
  DO(cuStreamSynchronize, streams[1]);
  DO(cuEventQuery, events[1]);
  float milliseconds = -1;
  DO(cuEventElapsedTime, &milliseconds, events[0], events[1]);
  transcript.Expect("elapsed", milliseconds >= 0 ? 1 : 0, 1);
  for (int i = 0; i < 2; ++i) {
    DO(cuEventDestroy_v2, events[i]);
    DO(cuStreamDestroy_v2, streams[i]);
  }
}

struct OnDevice {
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  cuda::Event event = nullptr;
  cuda::Pointer memory = 0;
};

void Begin(Transcript& transcript, OnDevice (&devices)[2]) {
  for (int i = 0; i < 2; ++i) {
    DO(cuDevicePrimaryCtxRetain, &devices[i].context, i);
    DO(cuCtxSetCurrent, devices[i].context);
    DO(cuStreamCreate, &devices[i].stream, cuda::kStreamNonBlocking);
    DO(cuEventCreate, &devices[i].event, cuda::kEventDisableTiming);
    DO(cuMemAlloc_v2, &devices[i].memory, 4 * kMegabyte);
  }
}

void End(Transcript& transcript, OnDevice (&devices)[2]) {
  for (const OnDevice& device : devices) {
    DO(cuCtxSetCurrent, device.context);
    DO(cuMemFree_v2, device.memory);
    DO(cuEventDestroy_v2, device.event);
    DO(cuStreamDestroy_v2, device.stream);
  }
  DO(cuCtxSetCurrent, devices[0].context);
  for (int i = 0; i < 2; ++i) DO(cuDevicePrimaryCtxRelease_v2, i);
}

/// Work on the second device that waits for an event of the first, and back.
void Events(Transcript& transcript) {
  OnDevice devices[2];
  Begin(transcript, devices);
  DO(cuCtxSetCurrent, devices[0].context);
  const cuda::Function kernel = Kernel("2000000");
  transcript.Expect("launch", static_cast<std::uint64_t>(Launch(kernel, devices[0].stream)), 0);
  DO(cuMemsetD32Async, devices[0].memory, 11, kMegabyte, devices[0].stream);
  DO(cuEventRecord, devices[0].event, devices[0].stream);
  DO(cuCtxSetCurrent, devices[1].context);
  DO(cuStreamWaitEvent, devices[1].stream, devices[0].event, 0);
  DO(cuMemcpyPeerAsync, devices[1].memory, devices[1].context, devices[0].memory, devices[0].context, 4 * kMegabyte,
     devices[1].stream);
  DO(cuEventRecord, devices[1].event, devices[1].stream);
  DO(cuEventSynchronize, devices[1].event);
  DO(cuEventQuery, devices[0].event);
  transcript.Expect("copied", WordAt(devices[1].memory + 4 * kMegabyte - 4), 11);
  End(transcript, devices);
}

void Devices(Transcript& transcript) {
  OnDevice devices[2];
  int count = 0;
  DO(cuDeviceGetCount, &count);
  transcript.Expect("devices", static_cast<std::uint64_t>(count), 2);
  Begin(transcript, devices);
  for (int i = 0; i < 2; ++i) {
    int ordinal = -1;
    std::size_t free[2] = {};
    std::size_t total = 0;
    cuda::Pointer more = 0;
    DO(cuCtxSetCurrent, devices[i].context);
    DO(cuPointerGetAttribute, &ordinal, cuda::kPointerDeviceOrdinal, devices[i].memory);
    transcript.Expect("ordinal", static_cast<std::uint64_t>(ordinal), static_cast<std::uint64_t>(i));
    DO(cuMemGetInfo_v2, &free[0], &total);
    DO(cuMemAlloc_v2, &more, 64 * kMegabyte);
    DO(cuMemGetInfo_v2, &free[1], &total);
    transcript.Expect("taken", free[0] - free[1], 64 * kMegabyte);
    DO(cuMemFree_v2, more);
    DO(cuMemGetInfo_v2, &free[1], &total);
    transcript.Expect("taken", free[0] - free[1], 0);
    DO(cuMemsetD32_v2, devices[i].memory, static_cast<unsigned>(100 + i), kMegabyte);
  }
  int can = 0;
  DO(cuDeviceCanAccessPeer, &can, 0, 1);
  DO(cuMemcpyPeer, devices[0].memory, devices[0].context, devices[1].memory, devices[1].context, kMegabyte);
  DO(cuCtxSetCurrent, devices[0].context);
  transcript.Expect("copied", WordAt(devices[0].memory), 101);
  transcript.Expect("kept", WordAt(devices[0].memory + kMegabyte), 100);
  DO(cuCtxEnablePeerAccess, devices[1].context, 0);
  transcript.Note("twice", static_cast<std::uint64_t>(CU(cuCtxEnablePeerAccess)(devices[1].context, 0)));
  DO(cuCtxDisablePeerAccess, devices[1].context);
  End(transcript, devices);
}

void Contexts(Transcript& transcript) {
  cuda::Context primary = nullptr;
  cuda::Context made = nullptr;
  cuda::Context popped = nullptr;
  cuda::Context current = nullptr;
  cuda::Pointer memory = 0;
  unsigned flags = 0;
  int is_active = -1;
  DO(cuDevicePrimaryCtxGetState, 1, &flags, &is_active);
  transcript.Expect("active", static_cast<std::uint64_t>(is_active), 0);
  DO(cuDevicePrimaryCtxRetain, &primary, 1);
  DO(cuDevicePrimaryCtxGetState, 1, &flags, &is_active);
  transcript.Expect("active", static_cast<std::uint64_t>(is_active), 1);
  DO(cuDevicePrimaryCtxRelease_v2, 1);
  DO(cuDevicePrimaryCtxGetState, 1, &flags, &is_active);
  transcript.Expect("active", static_cast<std::uint64_t>(is_active), 0);
  DO(cuCtxGetCurrent, &primary);
  DO(cuCtxCreate_v2, &made, 0, 0);
  DO(cuMemAlloc_v2, &memory, 4 * kMegabyte);
  DO(cuMemsetD32_v2, memory, 9, kMegabyte);
  transcript.Expect("content", WordAt(memory), 9);
  DO(cuCtxPopCurrent_v2, &popped);
  transcript.Expect("popped", popped == made ? 1 : 0, 1);
  DO(cuCtxGetCurrent, &current);
  transcript.Expect("primary", current == primary ? 1 : 0, 1);
  DO(cuCtxDestroy_v2, made);
}

/// Two green contexts, each with a part of the device, a stream and memory.
void Green(Transcript& transcript) {
  cuda::DeviceResource whole{};
  cuda::DeviceResource parts[2] = {};
  cuda::DeviceResource rest{};
  unsigned count = 2;
  DO(cuDeviceGetDevResource, 0, &whole, cuda::kResourceSm);
  transcript.Note("multiprocessors", whole.sm_count);
  DO(cuDevSmResourceSplitByCount, parts, &count, &whole, &rest, 0, 16);
  transcript.Expect("parts", count, 2);
  transcript.Expect("sum", parts[0].sm_count + parts[1].sm_count + rest.sm_count, whole.sm_count);
  const cuda::Function kernel = Kernel("1000");
  cuda::Context primary = nullptr;
  DO(cuCtxGetCurrent, &primary);
  for (int i = 0; i < 2; ++i) {
    cuda::ResourceDescriptor descriptor = nullptr;
    cuda::GreenContext green = nullptr;
    cuda::GreenContext its = nullptr;
    cuda::Context context = nullptr;
    cuda::Stream stream = nullptr;
    cuda::Pointer memory = 0;
    cuda::Device device = -1;
    DO(cuDevResourceGenerateDesc, &descriptor, &parts[i], 1);
    DO(cuGreenCtxCreate, &green, descriptor, 0, 1);
    DO(cuCtxFromGreenCtx, &context, green);
    DO(cuGreenCtxStreamCreate, &stream, green, cuda::kStreamNonBlocking, 0);
    DO(cuStreamGetGreenCtx, stream, &its);
    transcript.Expect("its", its == green ? 1 : 0, 1);
    DO(cuCtxSetCurrent, context);
    DO(cuCtxGetDevice, &device);
    transcript.Expect("device", static_cast<std::uint64_t>(device), 0);
    DO(cuMemAlloc_v2, &memory, 4 * kMegabyte);
    DO(cuMemsetD32Async, memory, 3, kMegabyte, stream);
    transcript.Expect("launch", static_cast<std::uint64_t>(Launch(kernel, stream)), 0);
    DO(cuStreamSynchronize, stream);
    transcript.Expect("content", WordAt(memory), 3);
    DO(cuMemFree_v2, memory);
    DO(cuStreamDestroy_v2, stream);
    DO(cuCtxSetCurrent, primary);
    DO(cuGreenCtxDestroy, green);
  }
}

void Modules(Transcript& transcript) {
  const char* const ptx =
      ".version 7.0\n.target sm_50\n.address_size 64\n.visible .global .align 4 .b8 table[64];\n"
      ".visible .entry one()\n{\n\tret;\n}\n.visible .entry two()\n{\n\tret;\n}\n";
  int mode = 0;
  int is_loaded = -1;
  unsigned kernels = 0;
  std::size_t bytes = 0;
  cuda::Pointer table = 0;
  cuda::Library library = nullptr;
  cuda::Kernel kernel = nullptr;
  cuda::Function function = nullptr;
  cuda::Module module = nullptr;
  DO(cuModuleGetLoadingMode, &mode);
  transcript.Expect("lazy", static_cast<std::uint64_t>(mode), 2);
  DO(cuLibraryLoadData, &library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  DO(cuLibraryGetKernelCount, &kernels, library);
  transcript.Expect("kernels", kernels, 2);
  DO(cuLibraryGetKernel, &kernel, library, "two");
  DO(cuKernelGetFunction, &function, kernel);
  DO(cuFuncIsLoaded, &is_loaded, function);
  transcript.Expect("loaded", static_cast<std::uint64_t>(is_loaded), 0);
  transcript.Expect("launch", static_cast<std::uint64_t>(Launch(function, nullptr)), 0);
  DO(cuCtxSynchronize);
  DO(cuFuncIsLoaded, &is_loaded, function);
  transcript.Expect("loaded", static_cast<std::uint64_t>(is_loaded), 1);
  DO(cuLibraryGetGlobal, &table, &bytes, library, "table");
  transcript.Expect("bytes", bytes, 64);
  DO(cuMemsetD32_v2, table, 21, 16);
  transcript.Expect("content", WordAt(table + 60), 21);
  DO(cuLibraryUnload, library);
  DO(cuModuleLoadData, &module, ptx);
  DO(cuModuleGetFunction, &function, module, "one");
  DO(cuFuncLoad, function);
  DO(cuFuncIsLoaded, &is_loaded, function);
  transcript.Expect("loaded", static_cast<std::uint64_t>(is_loaded), 1);
  transcript.Note("none", static_cast<std::uint64_t>(CU(cuModuleGetFunction)(&function, module, "three")));
  DO(cuModuleUnload, module);
}

/// The memory that a program is told of, also in a forked child, where CUDA does not work.
void Info(Transcript& transcript) {
  std::size_t free[2] = {};
  std::size_t total[2] = {};
  std::size_t of_device = 0;
  cuda::Pointer memory = 0;
  DO(cuMemGetInfo_v2, &free[0], &total[0]);
  DO(cuDeviceTotalMem_v2, &of_device, 0);
  transcript.Expect("total", total[0], of_device);
  DO(cuMemAlloc_v2, &memory, 128 * kMegabyte);
  DO(cuMemGetInfo_v2, &free[1], &total[1]);
  transcript.Expect("taken", free[0] - free[1], 128 * kMegabyte);
  transcript.Expect("total", total[1], total[0]);
  const pid_t child = fork();
  if (child == 0) std::_Exit(static_cast<int>(CU(cuMemGetInfo_v2)(&free[1], &total[1])));
  int status = -1;
  waitpid(child, &status, 0);
  transcript.Expect("child", static_cast<std::uint64_t>(WEXITSTATUS(status)), cuda::kNotInitialized);
  DO(cuMemFree_v2, memory);
  DO(cuMemGetInfo_v2, &free[1], &total[1]);
  transcript.Expect("taken", free[0] - free[1], 0);
}

}  // namespace

std::string RunFeature(const std::string& name) {
  const std::map<std::string, void (*)(Transcript&)> features = {
      {"vmm", Vmm},         {"pools", Pools},       {"graphs", Graphs}, {"priorities", Priorities}, {"events", Events},
      {"devices", Devices}, {"contexts", Contexts}, {"green", Green},   {"modules", Modules},       {"info", Info}};
  const auto found = features.find(name);
  if (found == features.end()) return "no such feature";
  Transcript transcript;
  found->second(transcript);
  return transcript.Text();
}

std::string Hog(const std::string& kind, std::uint64_t bytes, std::uint64_t most) {
  std::uint64_t count = 0;
  cuda::Return result = cuda::kSuccess;
  while (count < most && result == cuda::kSuccess) {
    Thing thing{kind, 0, 0, bytes};
    result = Make(thing);
    if (result == cuda::kSuccess) ++count;
  }
  return std::to_string(static_cast<int>(result)) + " " + std::to_string(count);
}

std::string RequestNames(const std::string& list) {
  const auto get = reinterpret_cast<decltype(&cuda::cuGetProcAddress_v2)>(dlsym(g_cuda, "cuGetProcAddress_v2"));
  std::ifstream file(list);
  std::uint64_t found = 0;
  std::uint64_t missing = 0;
  std::uint64_t digest = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string how, name, version, flags;
    words >> how >> name >> version >> flags;
    void* function = nullptr;
    std::uint64_t result = 0;
    if (how == "proc") {
      cuda::ProcAddressResult why{};
      if (name == "\"\"") name.clear();
      result = static_cast<std::uint64_t>(get(name.c_str(), &function, std::stoi(version), std::stoull(flags), &why));
      result = result * 10 + static_cast<std::uint64_t>(why);
    } else if (how == "dlsym" && name.starts_with("cu")) {
      function = dlsym(g_cuda, name.c_str());
    } else {
      continue;
    }
    ++(function != nullptr ? found : missing);
    digest = digest * 31 + result * 2 + (function != nullptr ? 1 : 0);
  }
  return std::to_string(found) + " " + std::to_string(missing) + " " + std::to_string(digest);
}

std::string EnterGreenContext() {
  cuda::DeviceResource whole{};
  cuda::ResourceDescriptor descriptor = nullptr;
  cuda::GreenContext green = nullptr;
  cuda::Context context = nullptr;
  CU(cuDeviceGetDevResource)(0, &whole, cuda::kResourceSm);
  CU(cuDevResourceGenerateDesc)(&descriptor, &whole, 1);
  CU(cuGreenCtxCreate)(&green, descriptor, 0, 1);
  CU(cuCtxFromGreenCtx)(&context, green);
  return std::to_string(static_cast<int>(CU(cuCtxSetCurrent)(context)));
}

std::string BindToMulticast() {
  using Get = cuda::Return (*)(const char*, void**, int, unsigned long long, cuda::ProcAddressResult*);
  using Bind =
      cuda::Return (*)(std::uint64_t, int, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t);
  void* function = nullptr;
  cuda::ProcAddressResult found{};
  reinterpret_cast<Get>(Find("cuGetProcAddress_v2"))("cuMulticastBindMem", &function, 13010, 0, &found);
  if (function == nullptr) return "not found";
  return std::to_string(static_cast<int>(reinterpret_cast<Bind>(function)(1, 2, 3, 4, 5, 6, 7)));
}

}  // namespace divvy::share_tenant
