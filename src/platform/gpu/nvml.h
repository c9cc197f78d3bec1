// A loaded NVML library: its entry points, or those of older drivers if the newest are missing. A null pointer is a
// function that this driver does not have; its data is then unknown.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "platform/gpu/nvml_api.h"

namespace divvy {

class NvmlLibrary {
 public:
  /// Loads NVML and initialises it; the destructor shuts it down. The parameters and errors are those of OpenNvml
  /// (gpu_probe.h).
  static Result<std::unique_ptr<NvmlLibrary>> Load(const std::string& library_path, const std::string& world_path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  // Never null.
  decltype(&nvmlDeviceGetCount_v2) get_count = nullptr;
  decltype(&nvmlDeviceGetHandleByIndex_v2) get_handle = nullptr;

  decltype(&nvmlSystemGetDriverVersion) get_driver_version = nullptr;
  decltype(&nvmlDeviceGetUUID) get_uuid = nullptr;
  decltype(&nvmlDeviceGetName) get_name = nullptr;
  decltype(&nvmlDeviceGetMemoryInfo) get_memory = nullptr;
  decltype(&nvmlDeviceGetPciInfo_v3) get_pci = nullptr;
  decltype(&nvmlDeviceGetUtilizationRates) get_utilisation = nullptr;
  decltype(&nvmlDeviceGetTemperature) get_temperature = nullptr;
  decltype(&nvmlDeviceGetPowerUsage) get_power = nullptr;
  decltype(&nvmlDeviceGetTotalEnergyConsumption) get_energy = nullptr;
  decltype(&nvmlDeviceGetCudaComputeCapability) get_compute_capability = nullptr;
  decltype(&nvmlDeviceGetMigMode) get_mig_mode = nullptr;
  // MIG: either all of these are set or none. `explain` returns the text of an error.
  decltype(&nvmlDeviceSetMigMode) set_mig_mode = nullptr;
  decltype(&nvmlDeviceGetGpuInstanceProfileInfo) get_slice_profile = nullptr;
  decltype(&nvmlDeviceGetGpuInstancePossiblePlacements_v2) get_slice_places = nullptr;
  decltype(&nvmlDeviceCreateGpuInstanceWithPlacement) make_slice = nullptr;
  decltype(&nvmlDeviceGetGpuInstances) list_slices = nullptr;
  decltype(&nvmlGpuInstanceGetInfo) get_slice = nullptr;
  decltype(&nvmlGpuInstanceDestroy) unmake_slice = nullptr;
  decltype(&nvmlGpuInstanceGetComputeInstanceProfileInfo) get_compute_profile = nullptr;
  decltype(&nvmlGpuInstanceCreateComputeInstance) make_compute = nullptr;
  decltype(&nvmlGpuInstanceGetComputeInstances) list_compute_instances = nullptr;
  decltype(&nvmlComputeInstanceDestroy) unmake_compute = nullptr;
  decltype(&nvmlDeviceGetMigDeviceHandleByIndex) get_mig_device = nullptr;
  decltype(&nvmlDeviceGetGpuInstanceId) get_slice_id = nullptr;
  decltype(&nvmlDeviceGetMinorNumber) get_minor = nullptr;
  bool has_mig() const;
  /// Returns a text such as "NVML error 19, In use by another client".
  std::string Explain(nvml::Return result) const;

  decltype(&nvmlDeviceGetMemoryAffinity) get_memory_affinity = nullptr;

  using ListProcesses = decltype(&nvmlDeviceGetComputeRunningProcesses_v3);
  using ListProcessesV1 = decltype(&nvmlDeviceGetComputeRunningProcesses);
  ListProcesses list_compute = nullptr;
  ListProcesses list_graphics = nullptr;
  ListProcesses list_mps = nullptr;
  ListProcessesV1 list_compute_v1 = nullptr;  // Used only if list_compute is null: drivers before R450.
  ListProcessesV1 list_graphics_v1 = nullptr;

  decltype(&nvmlDeviceGetTopologyCommonAncestor) get_common_ancestor = nullptr;
  decltype(&nvmlDeviceGetNvLinkState) get_link_state = nullptr;
  decltype(&nvmlDeviceGetNvLinkRemotePciInfo_v2) get_link_pci = nullptr;
  decltype(&nvmlDeviceGetNvLinkRemoteDeviceType) get_link_end = nullptr;

  decltype(&nvmlDeviceGetRemappedRows) get_remapped_rows = nullptr;
  decltype(&nvmlDeviceGetFieldValues) get_fields = nullptr;
  decltype(&nvmlDeviceGetClockInfo) get_clock = nullptr;
  decltype(&nvmlDeviceGetCurrentClocksEventReasons) get_clock_reasons = nullptr;
  decltype(&nvmlDeviceGetTotalEccErrors) get_errors = nullptr;
  decltype(&nvmlDeviceGetProcessUtilization) get_process_use = nullptr;
  // Counters of the multiprocessors: either all of these are set or none.
  decltype(&nvmlGpmQueryDeviceSupport) query_gpm = nullptr;
  decltype(&nvmlGpmSampleAlloc) make_gpm_sample = nullptr;
  decltype(&nvmlGpmSampleFree) free_gpm_sample = nullptr;
  decltype(&nvmlGpmSampleGet) take_gpm_sample = nullptr;
  decltype(&nvmlGpmMetricsGet) get_gpm_metrics = nullptr;
  bool has_gpm() const {
    return query_gpm != nullptr && make_gpm_sample != nullptr && free_gpm_sample != nullptr &&
           take_gpm_sample != nullptr && get_gpm_metrics != nullptr;
  }

  decltype(&nvmlEventSetCreate) create_events = nullptr;
  decltype(&nvmlEventSetFree) free_events = nullptr;
  decltype(&nvmlDeviceRegisterEvents) register_events = nullptr;
  decltype(&nvmlEventSetWait_v2) wait_events = nullptr;

 private:
  explicit NvmlLibrary(void* library) : library_(library) {}
  void Resolve();

  void* library_;
  bool is_started_ = false;
};

}  // namespace divvy
