// Entry points about the library, the driver and device lookup.
#include <string.h>

#include "nvml_world.h"

using namespace divvy::nvml;       // NOLINT: the entry points are outside the namespace by their ABI.
using namespace divvy::emulation;  // NOLINT: same reason.

Return nvmlInit() { return StartWorld(); }
Return nvmlInit_v2() { return StartWorld(); }
Return nvmlInitWithFlags(unsigned) { return StartWorld(); }
Return nvmlShutdown() { return StopWorld(); }

const char* nvmlErrorString(Return result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNoPermission:
      return "Insufficient Permissions";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kDriverNotLoaded:
      return "Driver Not Loaded (no description of emulated GPUs)";
    case kTimeout:
      return "Timeout";
    case kLibraryNotFound:
      return "NVML Shared Library Not Found";
    case kFunctionNotFound:
      return "Function Not Found";
    case kGpuIsLost:
      return "GPU is lost";
    case kResetRequired:
      return "GPU requires reset";
    case kInUse:
      return "In use by another client";
    case kInsufficientResources:
      return "Insufficient Resources";
    case kUnknown:
      break;
  }
  return "Unknown Error";
}

Return nvmlSystemGetDriverVersion(char* version, unsigned size) {
  Locked lock;
  return OpenWorld() == nullptr ? kUninitialized : CopyText(version, size, OpenWorld()->driver_version);
}

Return nvmlSystemGetNVMLVersion(char* version, unsigned size) {
  Locked lock;
  return OpenWorld() == nullptr ? kUninitialized : CopyText(version, size, OpenWorld()->nvml_version);
}

Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  Locked lock;
  if (OpenWorld() == nullptr) return kUninitialized;
  if (version == nullptr) return kInvalidArgument;
  *version = OpenWorld()->cuda_version;
  return kSuccess;
}
Return nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

Return nvmlDeviceGetCount_v2(unsigned* count) {
  Locked lock;
  if (OpenWorld() == nullptr) return kUninitialized;
  if (count == nullptr) return kInvalidArgument;
  *count = OpenWorld()->gpu_count;
  return kSuccess;
}
Return nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

namespace {

template <typename Matches>
Return FindDevice(Device* device, Matches matches, Return otherwise) {
  Locked lock;
  FollowWorld();
  const World* world = OpenWorld();
  if (world == nullptr) return kUninitialized;
  if (device == nullptr) return kInvalidArgument;
  for (unsigned i = 0; i < world->gpu_count; ++i) {
    if (!matches(i, world->gpus[i].facts)) continue;
    WorldState state;
    ReadState(world->gpus[i], state);
    if (state.is_lost != 0) return kGpuIsLost;
    *device = DeviceAt(i);
    return kSuccess;
  }
  return otherwise;
}

Return FindInstance(const char* uuid, Device* device) {
  Locked lock;
  const World* world = OpenWorld();
  if (world == nullptr) return kUninitialized;
  if (device == nullptr) return kInvalidArgument;
  for (unsigned gpu = 0; gpu < world->gpu_count; ++gpu) {
    WorldState state;
    ReadState(world->gpus[gpu], state);
    for (unsigned slot = 0; slot < kMaxInstances; ++slot) {
      const WorldInstance& one = state.instances[slot];
      if (one.is_there == 0 || one.has_compute == 0 || strcmp(one.uuid, uuid) != 0) continue;
      *device = static_cast<Device>(HandleOf({gpu, slot}));
      return kSuccess;
    }
  }
  return kNotFound;
}

}  // namespace

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  return FindDevice(
      device, [index](unsigned i, const WorldFacts&) { return i == index; }, kInvalidArgument);
}
Return nvmlDeviceGetHandleByIndex(unsigned index, Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  if (uuid == nullptr) return kInvalidArgument;
  if (strncmp(uuid, "MIG-", 4) == 0) return FindInstance(uuid, device);
  return FindDevice(
      device, [uuid](unsigned, const WorldFacts& f) { return strcmp(f.uuid, uuid) == 0; }, kNotFound);
}

Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device* device) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (bus_id == nullptr || !ParsePci(bus_id, domain, bus, slot)) return kInvalidArgument;
  auto matches = [=](unsigned, const WorldFacts& facts) {
    unsigned its_domain = 0;
    unsigned its_bus = 0;
    unsigned its_slot = 0;
    return ParsePci(facts.pci, its_domain, its_bus, its_slot) && its_domain == domain && its_bus == bus &&
           its_slot == slot;
  };
  return FindDevice(device, matches, kNotFound);
}
Return nvmlDeviceGetHandleByPciBusId(const char* bus_id, Device* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}
