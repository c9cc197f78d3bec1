// Device entry points.
#include <stdio.h>

#include "cuda_driver.h"
#include "platform/emulation/emulation_mig.h"

namespace divvy::cuda {
namespace {

bool IsDevice(Device device) { return device >= 0 && static_cast<unsigned>(device) < driver.gpu_count; }

// Converts "GPU-2f1c0b1e-..." to its sixteen bytes.
Uuid UuidOf(const char* text) {
  Uuid uuid = {};
  unsigned digits = 0;
  for (const char* at = text + 4; *at != '\0' && digits < 32; ++at) {
    const char c = *at;
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) continue;
    uuid.bytes[digits / 2] = static_cast<unsigned char>(uuid.bytes[digits / 2] << 4 | digit);
    ++digits;
  }
  return uuid;
}

bool ParsePci(const char* text, unsigned& domain, unsigned& bus, unsigned& slot) {
  unsigned function = 0;
  if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) >= 3) return true;
  domain = 0;
  return sscanf(text, "%x:%x.%x", &bus, &slot, &function) >= 2;
}

int Attribute(const emulation::WorldFacts& facts, int attribute) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  ParsePci(facts.pci, domain, bus, slot);
  const int capability = facts.compute_capability == 0 ? 80 : facts.compute_capability;
  switch (attribute) {
    case kMaxThreadsPerBlock:
    case kMaxBlockDimX:
    case kMaxBlockDimY:
      return 1024;
    case kMaxBlockDimZ:
      return 64;
    case kMaxGridDimX:
      return 0x7fffffff;
    case kMaxGridDimY:
    case kMaxGridDimZ:
      return 65535;
    case kMaxSharedMemoryPerBlock:
      return 49152;
    case kMaxSharedMemoryPerBlockOptIn:
      return 232448;
    case kMaxSharedMemoryPerMultiprocessor:
      return 233472;
    case kTotalConstantMemory:
    case kMaxRegistersPerBlock:
    case kMaxRegistersPerMultiprocessor:
      return 65536;
    case kWarpSize:
    case kMaxBlocksPerMultiprocessor:
    case kTexturePitchAlignment:
      return 32;
    case kMaxPitch:
      return 0x7fffffff;
    case kClockRate:
      return 1980000;
    case kMemoryClockRate:
      return 2619000;
    case kGlobalMemoryBusWidth:
      return 5120;
    case kL2CacheSize:
      return 50 << 20;
    case kTextureAlignment:
      return 512;
    case kMultiprocessorCount:
      return driver.instance.is_there != 0 ? static_cast<int>(driver.instance.compute * 16) : 132;
    case kMaxThreadsPerMultiprocessor:
      return 2048;
    case kAsyncEngineCount:
      return 3;
    case kPciBusId:
      return static_cast<int>(bus);
    case kPciDeviceId:
      return static_cast<int>(slot);
    case kPciDomainId:
      return static_cast<int>(domain);
    case kComputeCapabilityMajor:
      return capability / 10;
    case kComputeCapabilityMinor:
      return capability % 10;
    case kGpuOverlap:
    case kCanMapHostMemory:
    case kConcurrentKernels:
    case kUnifiedAddressing:
    case kStreamPrioritiesSupported:
    case kManagedMemory:
    case kConcurrentManagedAccess:
    case kComputePreemptionSupported:
    case kCanUseHostPointerForRegisteredMemory:
    case kCooperativeLaunch:
    case kHostRegisterSupported:
    case kVirtualMemoryManagementSupported:
    case kHandleTypePosixFileDescriptorSupported:
    case kMemoryPoolsSupported:
    case kUnifiedFunctionPointers:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

Return cuDeviceGetCount(int* count) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (count == nullptr) return kInvalidValue;
  *count = static_cast<int>(driver.gpu_count);
  return kSuccess;
}

Return cuDeviceGet(Device* device, int ordinal) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (device == nullptr) return kInvalidValue;
  if (!IsDevice(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

Return cuDeviceGetName(char* name, int room, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (name == nullptr || room <= 0) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  const emulation::WorldInstance& instance = driver.instance;
  if (instance.is_there == 0) {
    snprintf(name, static_cast<size_t>(room), "%s", FactsOf(device).name);
  } else {
    snprintf(name, static_cast<size_t>(room), "%s MIG %ug.%ugb", FactsOf(device).name, instance.compute,
             emulation::MigGigabytes(FactsOf(device).memory_total, instance.size));
  }
  return kSuccess;
}

Return cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (uuid == nullptr) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  *uuid = UuidOf(driver.instance.is_there != 0 ? driver.instance.uuid : FactsOf(device).uuid);
  return kSuccess;
}
Return cuDeviceGetUuid(Uuid* uuid, Device device) { return cuDeviceGetUuid_v2(uuid, device); }

Return cuDeviceTotalMem_v2(size_t* bytes, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (bytes == nullptr) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  *bytes = driver.instance.is_there != 0 ? driver.instance.memory : FactsOf(device).memory_total;
  return kSuccess;
}

Return cuDeviceGetAttribute(int* value, int attribute, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (value == nullptr || attribute <= 0) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  *value = Attribute(FactsOf(device), attribute);
  return kSuccess;
}

Return cuDeviceComputeCapability(int* major, int* minor, Device device) {
  const Return first = cuDeviceGetAttribute(major, kComputeCapabilityMajor, device);
  return first != kSuccess ? first : cuDeviceGetAttribute(minor, kComputeCapabilityMinor, device);
}

Return cuDeviceGetProperties(DeviceProperties* out, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (out == nullptr) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  *out = {1024, {1024, 1024, 64}, {0x7fffffff, 65535, 65535}, 49152, 65536, 32, 0x7fffffff, 65536, 1980000, 512};
  return kSuccess;
}

Return cuDeviceGetPCIBusId(char* text, int room, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (text == nullptr || room < 13) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  ParsePci(FactsOf(device).pci, domain, bus, slot);
  snprintf(text, static_cast<size_t>(room), "%04X:%02X:%02X.0", domain, bus, slot);
  return kSuccess;
}

Return cuDeviceGetByPCIBusId(Device* device, const char* text) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  unsigned wanted[3];
  if (device == nullptr || text == nullptr || !ParsePci(text, wanted[0], wanted[1], wanted[2])) return kInvalidValue;
  for (unsigned i = 0; i < driver.gpu_count; ++i) {
    unsigned its[3];
    const auto ordinal = static_cast<Device>(i);
    if (!ParsePci(FactsOf(ordinal).pci, its[0], its[1], its[2]) || memcmp(its, wanted, sizeof(its)) != 0) continue;
    *device = ordinal;
    return kSuccess;
  }
  return kInvalidDevice;
}

Return cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (can == nullptr) return kInvalidValue;
  if (!IsDevice(device) || !IsDevice(peer)) return kInvalidDevice;
  *can = device != peer ? 1 : 0;
  return kSuccess;
}

Return cuDeviceGetP2PAttribute(int* value, int attribute, Device device, Device peer) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (value == nullptr) return kInvalidValue;
  if (!IsDevice(device) || !IsDevice(peer) || device == peer) return kInvalidDevice;
  *value = attribute == 2 ? 1 : 0;
  return kSuccess;
}

}  // namespace divvy::cuda
