// Entry points about one device: properties, state and users.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "nvml_world.h"
#include "platform/emulation/emulation_mig.h"
#include "process_alive.h"

using namespace divvy::nvml;       // NOLINT: the entry points are outside the namespace by their ABI.
using namespace divvy::emulation;  // NOLINT: same reason.

namespace {

// Same values as in EmulatedWorld::SetUtilisation (platform/emulation/emulation.cc).
constexpr unsigned kIdleCelsius = 32;
constexpr unsigned kIdleMilliwatts = 70'000;
constexpr unsigned kMilliwattsForPercent = 6'000;

// Energy that a GPU has drawn up to this process's last query.
struct Drawn {
  double at;  // In seconds; 0: not queried yet.
  double milliwatts;
  double millijoules;
};
Drawn drawns[kMaxGpus];

unsigned PowerOf(const Look& look) {
  const unsigned drawn = kIdleMilliwatts + BusyNow(look) * kMilliwattsForPercent;
  return drawn > look.state.power_milliwatts ? drawn : look.state.power_milliwatts;
}

// The common form of a getter with one number as output.
template <typename T, typename Read>
Return Give(Device device, T* out, Read read) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (out == nullptr) return kInvalidArgument;
  *out = static_cast<T>(read(look));
  return kSuccess;
}

bool IsListed(const WorldProcess& process, bool is_graphics) {
  return (process.is_graphics != 0) == is_graphics && IsAlive(process);
}

// Returns the memory that a program of the stand-in CUDA driver has on the GPU, including contexts.
unsigned long long HeldOf(const CudaProcess& process, unsigned gpu) {
  return process.uses[gpu].memory + process.uses[gpu].residual;
}

bool IsUsing(const CudaProcess& process, unsigned gpu) { return HeldOf(process, gpu) != 0 && IsUsingCuda(process); }

bool IsOf(const CudaProcess& process, const WorldInstance* instance) {
  return instance == nullptr || process.instance == instance->id + 1;
}

}  // namespace

namespace divvy::emulation {

unsigned BusyNow(const Look& look) {
  if (OpenCuda() == nullptr) return look.state.utilisation_percent;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const unsigned busy = BusyPercent(OpenCuda()->gpus[look.index], static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
                                                                      static_cast<uint64_t>(now.tv_nsec));
  return busy > look.state.utilisation_percent ? busy : look.state.utilisation_percent;
}

bool HasPrograms(const Look& look, const WorldInstance* instance) {
  for (unsigned i = 0; instance == nullptr && i < look.state.process_count && i < kMaxProcesses; ++i) {
    if (IsAlive(look.state.processes[i])) return true;
  }
  for (unsigned i = 0; OpenCuda() != nullptr && i < kMaxCudaProcesses; ++i) {
    const CudaProcess& process = OpenCuda()->processes[i];
    if (IsUsing(process, look.index) && IsOf(process, instance)) return true;
  }
  return false;
}

}  // namespace divvy::emulation

namespace {

unsigned long long UsedMemory(const Look& look) {
  if (look.instance != nullptr) {
    unsigned long long used = 0;
    for (unsigned i = 0; OpenCuda() != nullptr && i < kMaxCudaProcesses; ++i) {
      const CudaProcess& process = OpenCuda()->processes[i];
      if (IsUsing(process, look.index) && IsOf(process, look.instance)) used += HeldOf(process, look.index);
    }
    return used < look.instance->memory ? used : look.instance->memory;
  }
  unsigned long long used = look.state.other_memory;
  for (unsigned i = 0; i < look.state.process_count; ++i) {
    if (IsAlive(look.state.processes[i])) used += look.state.processes[i].memory;
  }
  for (unsigned i = 0; OpenCuda() != nullptr && i < kMaxCudaProcesses; ++i) {
    const CudaProcess& process = OpenCuda()->processes[i];
    if (IsUsing(process, look.index)) used += HeldOf(process, look.index);
  }
  return used < look.facts->memory_total ? used : look.facts->memory_total;
}

void Fill(ProcessUseV1& out, const WorldProcess& process) { out = {process.pid, process.memory}; }
void Fill(ProcessUse& out, const WorldProcess& process) {
  out = {process.pid, process.memory, kNoInstance, kNoInstance};
}
void SetInstance(ProcessUseV1&, const CudaProcess&) {}
void SetInstance(ProcessUse& out, const CudaProcess& process) {
  if (process.instance == 0) return;
  out.gpu_instance = process.instance - 1;
  out.compute_instance = 0;
}

unsigned long long TotalMemory(const Look& look) {
  return look.instance != nullptr ? look.instance->memory : look.facts->memory_total;
}

template <typename Entry>
Return ListProcesses(Device device, unsigned* count, Entry* list, bool is_graphics) {
  Look look(device, true);
  if (look.result != kSuccess) return look.result;
  if (count == nullptr || (*count != 0 && list == nullptr)) return kInvalidArgument;
  unsigned found = 0;
  for (unsigned i = 0; i < look.state.process_count && i < kMaxProcesses; ++i) {
    if (look.instance != nullptr || !IsListed(look.state.processes[i], is_graphics)) continue;
    if (found < *count) Fill(list[found], look.state.processes[i]);
    ++found;
  }
  for (unsigned i = 0; !is_graphics && OpenCuda() != nullptr && i < kMaxCudaProcesses; ++i) {
    const CudaProcess& process = OpenCuda()->processes[i];
    if (!IsUsing(process, look.index) || !IsOf(process, look.instance)) continue;
    if (found < *count) {
      Fill(list[found], {HeldOf(process, look.index), process.start_ticks, process.pid, 0});
      SetInstance(list[found], process);
    }
    ++found;
  }
  const bool fits = found <= *count;
  *count = found;
  return fits ? kSuccess : kInsufficientSize;
}

Return ListNothing(Device device, unsigned* count) {
  return Give(device, count, [](const Look&) { return 0; });
}

}  // namespace

Return nvmlDeviceGetIndex(Device device, unsigned* index) {
  return Give(device, index, [](const Look& look) { return look.index; });
}

Return nvmlDeviceGetUUID(Device device, char* uuid, unsigned size) {
  Look look(device, true);
  if (look.result != kSuccess) return look.result;
  return CopyText(uuid, size, look.instance != nullptr ? look.instance->uuid : look.facts->uuid);
}

Return nvmlDeviceGetName(Device device, char* name, unsigned size) {
  Look look(device, true);
  if (look.result != kSuccess) return look.result;
  if (look.instance == nullptr) return CopyText(name, size, look.facts->name);
  char text[160];
  snprintf(text, sizeof(text), "%s MIG %ug.%ugb", look.facts->name, look.instance->compute,
           MigGigabytes(look.facts->memory_total, look.instance->size));
  return CopyText(name, size, text);
}

Return nvmlDeviceGetBrand(Device device, unsigned* brand) {
  return Give(device, brand, [](const Look& look) {
    if (strstr(look.facts->name, "GeForce") != nullptr) return kBrandGeForce;
    return strncmp(look.facts->name, "Tesla", 5) == 0 ? kBrandTesla : kBrandNvidia;
  });
}

Return nvmlDeviceGetMinorNumber(Device device, unsigned* minor) { return nvmlDeviceGetIndex(device, minor); }

Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  Look look(device, true);
  if (look.result != kSuccess) return look.result;
  if (memory == nullptr) return kInvalidArgument;
  const unsigned long long used = UsedMemory(look);
  *memory = {TotalMemory(look), TotalMemory(look) - used, used};
  return kSuccess;
}

Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  Look look(device, true);
  if (look.result != kSuccess) return look.result;
  if (memory == nullptr || memory->version != kMemoryV2) return kInvalidArgument;
  const unsigned long long used = UsedMemory(look);
  *memory = {kMemoryV2, TotalMemory(look), 0, TotalMemory(look) - used, used};
  return kSuccess;
}

Return nvmlDeviceGetUtilizationRates(Device device, Utilisation* utilisation) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (utilisation == nullptr) return kInvalidArgument;
  if (look.state.is_mig_on != 0) return kNotSupported;
  // Assumes kernels with moderate memory traffic; nothing is measured.
  const unsigned busy = BusyNow(look);
  const unsigned memory = busy * 2 / 5;
  *utilisation = {busy,
                  memory > look.state.memory_utilisation_percent ? memory : look.state.memory_utilisation_percent};
  return kSuccess;
}

Return nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned* celsius) {
  if (sensor != kTemperatureOfGpu) return kInvalidArgument;
  return Give(device, celsius, [](const Look& look) {
    const unsigned warm = kIdleCelsius + BusyNow(look) * 7 / 20;
    return warm > look.state.temperature_celsius ? warm : look.state.temperature_celsius;
  });
}

Return nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) { return Give(device, milliwatts, PowerOf); }

// Integrates the reported power over time, as if the driver had been loaded at this process's first query.
Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* millijoules) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (millijoules == nullptr) return kInvalidArgument;
  Drawn& drawn = drawns[look.index];
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double at = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  const unsigned power = PowerOf(look);
  if (drawn.at > 0) drawn.millijoules += (at - drawn.at) * (power + drawn.milliwatts) / 2;
  drawn.at = at;
  drawn.milliwatts = power;
  *millijoules = static_cast<unsigned long long>(drawn.millijoules);
  return kSuccess;
}

Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* milliwatts) {
  return Give(device, milliwatts, [](const Look&) { return 700'000U; });
}

Return nvmlDeviceGetMaxClockInfo(Device device, unsigned clock, unsigned* mhz) {
  if (clock > kClockVideo) return kInvalidArgument;
  return Give(device, mhz, [clock](const Look&) { return clock == kClockMemory ? 2619U : 1980U; });
}
Return nvmlDeviceGetClockInfo(Device device, unsigned clock, unsigned* mhz) {
  if (clock > kClockVideo) return kInvalidArgument;
  return Give(device, mhz, [clock](const Look& look) {
    if (clock == kClockMemory) return 2619U;
    return BusyNow(look) > 0 ? 1980U : 345U;
  });
}

Return nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (major == nullptr || minor == nullptr) return kInvalidArgument;
  if (look.facts->compute_capability == 0) return kNotSupported;
  *major = look.facts->compute_capability / 10;
  *minor = look.facts->compute_capability % 10;
  return kSuccess;
}

Return nvmlDeviceGetComputeMode(Device device, unsigned* mode) {
  return Give(device, mode, [](const Look&) { return 0; });  // Default mode: any number of processes.
}

Return nvmlDeviceGetPersistenceMode(Device device, unsigned* mode) {
  return Give(device, mode, [](const Look&) { return 1; });
}

Return nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, ProcessUseV1* list) {
  return ListProcesses(device, count, list, false);
}
Return nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, ProcessUse* list) {
  return ListProcesses(device, count, list, false);
}
Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessUse* list) {
  return ListProcesses(device, count, list, false);
}
Return nvmlDeviceGetGraphicsRunningProcesses(Device device, unsigned* count, ProcessUseV1* list) {
  return ListProcesses(device, count, list, true);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned* count, ProcessUse* list) {
  return ListProcesses(device, count, list, true);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, ProcessUse* list) {
  return ListProcesses(device, count, list, true);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device device, unsigned* count, ProcessUse*) {
  return ListNothing(device, count);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count, ProcessUse*) {
  return ListNothing(device, count);
}

Return nvmlDeviceGetTotalEccErrors(Device device, unsigned error, unsigned counter, unsigned long long* count) {
  if (error > kErrorUncorrected || counter > 1) return kInvalidArgument;
  return Give(device, count,
              [error](const Look& look) { return error == kErrorUncorrected ? look.state.uncorrected_errors : 0; });
}

Return nvmlDeviceGetRemappedRows(Device device, unsigned* correctable, unsigned* uncorrectable, unsigned* is_pending,
                                 unsigned* has_failed) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (correctable == nullptr || uncorrectable == nullptr || is_pending == nullptr || has_failed == nullptr) {
    return kInvalidArgument;
  }
  *correctable = 0;
  *uncorrectable = static_cast<unsigned>(look.state.uncorrected_errors);
  *is_pending = 0;
  *has_failed = look.state.has_remap_failed;
  return kSuccess;
}

Return nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (count <= 0 || values == nullptr) return kInvalidArgument;
  for (int i = 0; i < count; ++i) {
    values[i].result = values[i].field == kFieldRecoveryAction ? kSuccess : kNotSupported;
    values[i].value_type = kValueUnsigned;
    values[i].value.as_unsigned_long_long = 0;
    if (values[i].result == kSuccess) values[i].value.as_unsigned = look.state.recovery_action;
  }
  return kSuccess;
}
