// Adapts NVML's memory figures to the tenant's limit, for programs such as nvidia-smi and pynvml. The list of processes
// (nvmlDeviceGetComputeRunningProcesses) is not changed.
#include "nvml_hooks.h"

#include <dlfcn.h>
#include <string.h>

#include <atomic>

#include "platform/gpu/nvml_api.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

std::atomic<void*> g_nvml;

void* Nvml() {
  void* handle = g_nvml.load(std::memory_order_acquire);
  if (handle != nullptr) return handle;
  handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY);
  if (handle != nullptr) g_nvml.store(handle, std::memory_order_release);
  return handle;
}

template <typename Declared>
Declared* RealNvml(const char* symbol) {
  void* const nvml = Nvml();
  return nvml == nullptr ? nullptr : reinterpret_cast<Declared*>(RealDlsym(nvml, symbol));
}

/// Returns the tenant's device number, or kNotOurs.
unsigned DeviceBehind(nvml::Device device) {
  const share::Page* const page = SharedPage();
  const auto get_uuid = RealNvml<decltype(nvmlDeviceGetUUID)>("nvmlDeviceGetUUID");
  char uuid[nvml::kUuidSize] = {};
  if (page == nullptr || get_uuid == nullptr || get_uuid(device, uuid, sizeof uuid) != nvml::kSuccess) return kNotOurs;
  for (unsigned i = 0; i < page->device_count; ++i) {
    if (strncmp(page->devices[i].uuid, uuid, sizeof page->devices[i].uuid) == 0) return i;
  }
  return kNotOurs;
}

/// Returns false if the driver's figures are shown.
template <typename Memory>
bool Show(nvml::Device device, Memory& memory) {
  const unsigned ours = DeviceBehind(device);
  if (ours == kNotOurs) return true;
  std::uint64_t total = memory.total;
  std::uint64_t used = 0;
  if (!ShownMemory(ours, total, used)) return false;
  memory.total = total;
  memory.used = used;
  memory.free = total - used;
  return true;
}

nvml::Return nvmlDeviceGetMemoryInfo_hook(nvml::Device device, nvml::Memory* memory) {
  const auto real = RealNvml<decltype(nvmlDeviceGetMemoryInfo)>("nvmlDeviceGetMemoryInfo");
  if (real == nullptr) return nvml::kFunctionNotFound;
  const nvml::Return result = real(device, memory);
  if (result == nvml::kSuccess && memory != nullptr) Show(device, *memory);
  return result;
}

nvml::Return nvmlDeviceGetMemoryInfo_v2_hook(nvml::Device device, nvml::MemoryV2* memory) {
  const auto real = RealNvml<decltype(nvmlDeviceGetMemoryInfo_v2)>("nvmlDeviceGetMemoryInfo_v2");
  if (real == nullptr) return nvml::kFunctionNotFound;
  const nvml::Return result = real(device, memory);
  if (result == nvml::kSuccess && memory != nullptr && Show(device, *memory)) {
    memory->reserved = 0;  // The driver's own reservation is left out; used and free then sum up to the total.
  }
  return result;
}

}  // namespace

#define HOOK(symbol)                                                                      \
  extern "C" __attribute__((visibility("hidden"))) const EntryPoint divvy_entry_##symbol; \
  const EntryPoint divvy_entry_##symbol = reinterpret_cast<EntryPoint>(&symbol##_hook);
#include "nvml_hooks.inc"
#undef HOOK

EntryPoint NvmlHookOf(const char* symbol) {
#define HOOK(name) \
  if (strcmp(symbol, #name) == 0) return divvy_entry_##name;
#include "nvml_hooks.inc"
#undef HOOK
  return nullptr;
}

void* NvmlHandle() { return dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD); }

}  // namespace divvy::interpose
