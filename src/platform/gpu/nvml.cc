#include "platform/gpu/nvml.h"

#include <dlfcn.h>

#include <initializer_list>

namespace divvy {
namespace {

// Finds the first of `names` that the library has; newest first.
template <typename Function>
void Find(void* library, Function& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function != nullptr) return;
  }
}

std::string TextOf(void* library, nvml::Return result) {
  decltype(&nvmlErrorString) explain = nullptr;
  Find(library, explain, {"nvmlErrorString"});
  const char* text = explain == nullptr ? nullptr : explain(result);
  const std::string number = "NVML error " + std::to_string(static_cast<int>(result));
  return text == nullptr ? number : number + ", " + text;
}

}  // namespace

Result<std::unique_ptr<NvmlLibrary>> NvmlLibrary::Load(const std::string& library_path, const std::string& world_path) {
  const std::string path = library_path.empty() ? "libnvidia-ml.so.1" : library_path;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return Unreachable("cannot load NVML from " + path + " (" + (why == nullptr ? "no reason given" : why) +
                       "): install the NVIDIA driver, or use --emulate");
  }
  std::unique_ptr<NvmlLibrary> nvml(new NvmlLibrary(library));

  if (!world_path.empty()) {
    decltype(&divvyEmulateUse) use = nullptr;
    Find(library, use, {"divvyEmulateUse"});
    if (use == nullptr || use(world_path.c_str()) != nvml::kSuccess) {
      return Unreachable(path + " cannot load the emulated GPUs of " + world_path +
                         ": it is not divvy's emulation library");
    }
  }

  decltype(&nvmlInit_v2) init = nullptr;
  Find(library, init, {"nvmlInit_v2", "nvmlInit"});
  nvml->Resolve();
  if (init == nullptr || nvml->get_count == nullptr || nvml->get_handle == nullptr) {
    return Unreachable(path + " is not NVML: it lacks nvmlInit_v2, nvmlDeviceGetCount_v2 or their older forms");
  }
  if (const nvml::Return result = init(); result != nvml::kSuccess) {
    return Unreachable("NVML in " + path + " does not start (" + TextOf(library, result) +
                       "): check that nvidia-smi works");
  }
  nvml->is_started_ = true;
  return nvml;
}

NvmlLibrary::~NvmlLibrary() {
  if (is_started_) {
    decltype(&nvmlShutdown) shutdown = nullptr;
    Find(library_, shutdown, {"nvmlShutdown"});
    if (shutdown != nullptr) shutdown();
  }
  dlclose(library_);
}

void NvmlLibrary::Resolve() {
  void* const in = library_;
  Find(in, get_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  Find(in, get_handle, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  Find(in, get_driver_version, {"nvmlSystemGetDriverVersion"});
  Find(in, get_uuid, {"nvmlDeviceGetUUID"});
  Find(in, get_name, {"nvmlDeviceGetName"});
  Find(in, get_memory, {"nvmlDeviceGetMemoryInfo"});
  Find(in, get_pci, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"});
  Find(in, get_utilisation, {"nvmlDeviceGetUtilizationRates"});
  Find(in, get_temperature, {"nvmlDeviceGetTemperature"});
  Find(in, get_power, {"nvmlDeviceGetPowerUsage"});
  Find(in, get_energy, {"nvmlDeviceGetTotalEnergyConsumption"});
  Find(in, get_compute_capability, {"nvmlDeviceGetCudaComputeCapability"});
  Find(in, get_mig_mode, {"nvmlDeviceGetMigMode"});
  Find(in, set_mig_mode, {"nvmlDeviceSetMigMode"});
  Find(in, get_slice_profile, {"nvmlDeviceGetGpuInstanceProfileInfo"});
  Find(in, get_slice_places, {"nvmlDeviceGetGpuInstancePossiblePlacements_v2"});
  Find(in, make_slice, {"nvmlDeviceCreateGpuInstanceWithPlacement"});
  Find(in, list_slices, {"nvmlDeviceGetGpuInstances"});
  Find(in, get_slice, {"nvmlGpuInstanceGetInfo"});
  Find(in, unmake_slice, {"nvmlGpuInstanceDestroy"});
  Find(in, get_compute_profile, {"nvmlGpuInstanceGetComputeInstanceProfileInfo"});
  Find(in, make_compute, {"nvmlGpuInstanceCreateComputeInstance"});
  Find(in, list_compute_instances, {"nvmlGpuInstanceGetComputeInstances"});
  Find(in, unmake_compute, {"nvmlComputeInstanceDestroy"});
  Find(in, get_mig_device, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  Find(in, get_slice_id, {"nvmlDeviceGetGpuInstanceId"});
  Find(in, get_minor, {"nvmlDeviceGetMinorNumber"});
  Find(in, get_memory_affinity, {"nvmlDeviceGetMemoryAffinity"});
  Find(in, list_compute, {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  Find(in, list_graphics, {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"});
  Find(in, list_mps, {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"});
  Find(in, list_compute_v1, {"nvmlDeviceGetComputeRunningProcesses"});
  Find(in, list_graphics_v1, {"nvmlDeviceGetGraphicsRunningProcesses"});
  Find(in, get_common_ancestor, {"nvmlDeviceGetTopologyCommonAncestor"});
  Find(in, get_link_state, {"nvmlDeviceGetNvLinkState"});
  Find(in, get_link_pci, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
  Find(in, get_link_end, {"nvmlDeviceGetNvLinkRemoteDeviceType"});
  Find(in, get_remapped_rows, {"nvmlDeviceGetRemappedRows"});
  Find(in, get_fields, {"nvmlDeviceGetFieldValues"});
  Find(in, get_clock, {"nvmlDeviceGetClockInfo"});
  Find(in, get_clock_reasons, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  Find(in, get_errors, {"nvmlDeviceGetTotalEccErrors"});
  Find(in, get_process_use, {"nvmlDeviceGetProcessUtilization"});
  Find(in, query_gpm, {"nvmlGpmQueryDeviceSupport"});
  Find(in, make_gpm_sample, {"nvmlGpmSampleAlloc"});
  Find(in, free_gpm_sample, {"nvmlGpmSampleFree"});
  Find(in, take_gpm_sample, {"nvmlGpmSampleGet"});
  Find(in, get_gpm_metrics, {"nvmlGpmMetricsGet"});
  Find(in, create_events, {"nvmlEventSetCreate"});
  Find(in, free_events, {"nvmlEventSetFree"});
  Find(in, register_events, {"nvmlDeviceRegisterEvents"});
  Find(in, wait_events, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
}

bool NvmlLibrary::has_mig() const {
  return set_mig_mode != nullptr && get_mig_mode != nullptr && get_slice_profile != nullptr &&
         get_slice_places != nullptr && make_slice != nullptr && list_slices != nullptr && get_slice != nullptr &&
         unmake_slice != nullptr && get_compute_profile != nullptr && make_compute != nullptr &&
         list_compute_instances != nullptr && unmake_compute != nullptr && get_mig_device != nullptr &&
         get_slice_id != nullptr && get_uuid != nullptr;
}

std::string NvmlLibrary::Explain(nvml::Return result) const { return TextOf(library_, result); }

}  // namespace divvy
