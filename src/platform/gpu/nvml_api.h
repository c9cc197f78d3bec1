// NVML's C ABI as divvy uses it: the constants, layouts and entry points that a driver's libnvidia-ml.so.1 exports.
// divvy is built without NVIDIA's header, so they are declared here once for both sides: the probe that loads the
// library (nvml.cc) and the stand-in library (emulate/). Layouts and values are facts of the ABI: never change one.
// Only the parts that divvy uses are declared. Entry points keep NVML's names; the types have names of this code base.
#pragma once

namespace divvy::nvml {

using Device = struct OpaqueDevice*;
using EventSet = struct OpaqueEventSet*;
using GpuInstance = struct OpaqueGpuInstance*;
using ComputeInstance = struct OpaqueComputeInstance*;

/// nvmlReturn_t. A driver may return numbers that are not named here.
enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kLibraryNotFound = 12,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kInUse = 19,
  kInsufficientResources = 23,
  kUnknown = 999,
};

inline constexpr unsigned kNameSize = 96;
inline constexpr unsigned kUuidSize = 96;
inline constexpr unsigned kVersionSize = 80;
inline constexpr unsigned kMaxNvLinks = 18;
inline constexpr unsigned long long kMemoryNotAvailable = ~0ULL;  // In ProcessUse::used_memory.
inline constexpr unsigned kNoInstance = 0xFFFFFFFFU;              // Instance ids where MIG is off.

/// nvmlMemory_t; bytes.
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

/// nvmlMemory_v2_t. `version` is set by the caller to kMemoryV2.
struct MemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
inline constexpr unsigned kMemoryV2 = static_cast<unsigned>(sizeof(MemoryV2)) | 2U << 24;

/// nvmlUtilization_t; percent.
struct Utilisation {
  unsigned gpu;
  unsigned memory;
};

/// nvmlPciInfo_t, versions 2 and 3 of the calls that fill it.
struct PciAddress {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];  // 00000000:17:00.0
};

/// nvmlProcessInfo_v1_t: calls without a version suffix.
struct ProcessUseV1 {
  unsigned pid;
  unsigned long long used_memory;  // Bytes.
};

/// nvmlProcessInfo_t: versions 2 and 3 of the calls.
struct ProcessUse {
  unsigned pid;
  unsigned long long used_memory;  // Bytes.
  unsigned gpu_instance;
  unsigned compute_instance;
};

/// nvmlEventData_t.
struct Event {
  Device device;
  unsigned long long type;
  unsigned long long value;  // The XID, for kEventXid.
  unsigned gpu_instance;
  unsigned compute_instance;
};
inline constexpr unsigned long long kEventXid = 0x8;

/// nvmlFieldValue_t.
struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp_us;
  long long latency_us;
  unsigned value_type;
  Return result;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
    long long as_long_long;
  } value;
};
inline constexpr unsigned kFieldRecoveryAction = 230;  // Since driver R565.
inline constexpr unsigned kValueUnsigned = 1;

/// Bytes transferred over PCIe since the driver was loaded, as a 32-bit counter that wraps (since R550). With `scope`
/// kAllLinks: KiB transferred over all NVLinks.
inline constexpr unsigned kFieldPcieSent = 197;
inline constexpr unsigned kFieldPcieReceived = 198;
inline constexpr unsigned kFieldNvlinkSent = 138;
inline constexpr unsigned kFieldNvlinkReceived = 139;
inline constexpr unsigned kAllLinks = ~0U;

// --- Use

/// NVML_CLOCKS_EVENT_REASON_*: bits.
inline constexpr unsigned long long kReasonIdle = 0x1;

/// nvmlProcessUtilizationSample_t; percent of the time between samples.
struct ProcessUtilisation {
  unsigned pid;
  unsigned long long timestamp_us;
  unsigned sm;
  unsigned memory;
  unsigned encoder;
  unsigned decoder;
};

/// GPM: counters of the multiprocessors (since Hopper, driver R520).
using GpmSample = struct OpaqueGpmSample*;
/// nvmlGpmSupport_t.
struct GpmSupport {
  unsigned version;  // 1, set by the caller.
  unsigned is_supported;
};
/// nvmlGpmMetric_t.
struct GpmMetric {
  unsigned metric;
  Return result;
  double value;
  const char* short_name;
  const char* long_name;
  const char* unit;
};
/// nvmlGpmMetricsGet_t. Only the first `count` metrics are read; NVIDIA's array has one entry for each kind of metric.
inline constexpr unsigned kMostGpmMetrics = 8;
struct GpmMetrics {
  unsigned version;  // 1
  unsigned count;
  GpmSample first;
  GpmSample second;
  GpmMetric metrics[kMostGpmMetrics];
};
inline constexpr unsigned kGpmVersion = 1;
inline constexpr unsigned kGpmSmUtilisation = 2;  // Percent of the multiprocessors that were busy.
// Percent of the time in which tensor cores of any kind were active.
inline constexpr unsigned kGpmTensorUtilisation = 5;

// --- MIG (since driver R450; with explicit placements since R460)

/// NVML_GPU_INSTANCE_PROFILE_*: by how many compute slices it has.
enum SliceConstant : unsigned {
  kSlices1 = 0x0,
  kSlices2 = 0x1,
  kSlices3 = 0x2,
  kSlices4 = 0x3,
  kSlices7 = 0x4,
  kSlices1Wide = 0x9,  // REV2: one compute slice, the memory of two.
};
/// NVML_COMPUTE_INSTANCE_PROFILE_*: a number of compute slices. Same numbers as for GPU instances, except the wide one.
inline constexpr unsigned kSharedEngines = 0;  // NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
inline constexpr unsigned kMigOff = 0;
inline constexpr unsigned kMigOn = 1;

/// nvmlGpuInstancePlacement_t, and nvmlComputeInstancePlacement_t; in slices.
struct SlicePlace {
  unsigned start;
  unsigned size;
};

/// nvmlGpuInstanceProfileInfo_t.
struct GpuInstanceProfile {
  unsigned id;
  unsigned is_p2p_supported;
  unsigned slices;
  unsigned instances;
  unsigned multiprocessors;
  unsigned copy_engines;
  unsigned decoders;
  unsigned encoders;
  unsigned jpeg;
  unsigned ofa;
  unsigned long long memory_mb;  // MiB.
};

/// nvmlGpuInstanceInfo_t.
struct GpuInstanceInfo {
  Device device;
  unsigned id;
  unsigned profile_id;
  SlicePlace place;
};

/// nvmlComputeInstanceProfileInfo_t.
struct ComputeInstanceProfile {
  unsigned id;
  unsigned slices;
  unsigned instances;
  unsigned multiprocessors;
  unsigned copy_engines;
  unsigned decoders;
  unsigned encoders;
  unsigned jpeg;
  unsigned ofa;
};

/// nvmlComputeInstanceInfo_t.
struct ComputeInstanceInfo {
  Device device;
  GpuInstance gpu_instance;
  unsigned id;
  unsigned profile_id;
  SlicePlace place;
};

/// nvmlDeviceGpuRecoveryAction_t: the action that the driver requires before the GPU is used again.
enum RecoveryAction : unsigned {
  kRecoverNothing = 0,
  kRecoverGpuReset = 1,
  kRecoverNodeReboot = 2,
  kRecoverDrainPeers = 3,
  kRecoverDrainAndReset = 4,
};

/// nvmlGpuTopologyLevel_t: the nearest component that two GPUs share.
enum TopologyLevel : int {
  kInternal = 0,
  kSingleSwitch = 10,
  kMultipleSwitches = 20,
  kHostBridge = 30,
  kNode = 40,
  kSystem = 50,
};

/// nvmlIntNvLinkDeviceType_t: the kind of device at the far end of an NVLink.
enum LinkEnd : int { kLinkToGpu = 0, kLinkToNpu = 1, kLinkToSwitch = 2, kLinkToUnknown = 255 };

inline constexpr unsigned kTemperatureOfGpu = 0;
inline constexpr unsigned kAffinityOfNode = 0;
inline constexpr unsigned kErrorUncorrected = 1;
inline constexpr unsigned kCounterSinceLoad = 0;
enum Clock : unsigned { kClockGraphics = 0, kClockSm = 1, kClockMemory = 2, kClockVideo = 3 };
enum Brand : unsigned { kBrandTesla = 2, kBrandGeForce = 5, kBrandNvidia = 14 };

}  // namespace divvy::nvml

static_assert(sizeof(divvy::nvml::PciAddress) == 68);
static_assert(sizeof(divvy::nvml::ProcessUseV1) == 16);
static_assert(sizeof(divvy::nvml::ProcessUse) == 24);
static_assert(sizeof(divvy::nvml::Event) == 32);
static_assert(sizeof(divvy::nvml::FieldValue) == 40);
static_assert(sizeof(divvy::nvml::ProcessUtilisation) == 32);
static_assert(sizeof(divvy::nvml::GpmMetric) == 40);
static_assert(sizeof(divvy::nvml::MemoryV2) == 40);
static_assert(sizeof(divvy::nvml::GpuInstanceProfile) == 48);
static_assert(sizeof(divvy::nvml::GpuInstanceInfo) == 24);
static_assert(sizeof(divvy::nvml::ComputeInstanceProfile) == 36);
static_assert(sizeof(divvy::nvml::ComputeInstanceInfo) == 32);

extern "C" {
#define DIVVY_NVML __attribute__((visibility("default"))) divvy::nvml::Return

DIVVY_NVML nvmlInit();
DIVVY_NVML nvmlInit_v2();
DIVVY_NVML nvmlInitWithFlags(unsigned flags);
DIVVY_NVML nvmlShutdown();
__attribute__((visibility("default"))) const char* nvmlErrorString(divvy::nvml::Return result);

DIVVY_NVML nvmlSystemGetDriverVersion(char* version, unsigned size);
DIVVY_NVML nvmlSystemGetNVMLVersion(char* version, unsigned size);
DIVVY_NVML nvmlSystemGetCudaDriverVersion(int* version);
DIVVY_NVML nvmlSystemGetCudaDriverVersion_v2(int* version);

DIVVY_NVML nvmlDeviceGetCount(unsigned* count);
DIVVY_NVML nvmlDeviceGetCount_v2(unsigned* count);
DIVVY_NVML nvmlDeviceGetHandleByIndex(unsigned index, divvy::nvml::Device* device);
DIVVY_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, divvy::nvml::Device* device);
DIVVY_NVML nvmlDeviceGetHandleByUUID(const char* uuid, divvy::nvml::Device* device);
DIVVY_NVML nvmlDeviceGetHandleByPciBusId(const char* bus_id, divvy::nvml::Device* device);
DIVVY_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, divvy::nvml::Device* device);

DIVVY_NVML nvmlDeviceGetIndex(divvy::nvml::Device device, unsigned* index);
DIVVY_NVML nvmlDeviceGetUUID(divvy::nvml::Device device, char* uuid, unsigned size);
DIVVY_NVML nvmlDeviceGetName(divvy::nvml::Device device, char* name, unsigned size);
DIVVY_NVML nvmlDeviceGetBrand(divvy::nvml::Device device, unsigned* brand);
DIVVY_NVML nvmlDeviceGetMinorNumber(divvy::nvml::Device device, unsigned* minor);
DIVVY_NVML nvmlDeviceGetMemoryInfo(divvy::nvml::Device device, divvy::nvml::Memory* memory);
DIVVY_NVML nvmlDeviceGetMemoryInfo_v2(divvy::nvml::Device device, divvy::nvml::MemoryV2* memory);
DIVVY_NVML nvmlDeviceGetPciInfo(divvy::nvml::Device device, divvy::nvml::PciAddress* pci);
DIVVY_NVML nvmlDeviceGetPciInfo_v2(divvy::nvml::Device device, divvy::nvml::PciAddress* pci);
DIVVY_NVML nvmlDeviceGetPciInfo_v3(divvy::nvml::Device device, divvy::nvml::PciAddress* pci);
DIVVY_NVML nvmlDeviceGetUtilizationRates(divvy::nvml::Device device, divvy::nvml::Utilisation* utilisation);
DIVVY_NVML nvmlDeviceGetTemperature(divvy::nvml::Device device, unsigned sensor, unsigned* celsius);
DIVVY_NVML nvmlDeviceGetPowerUsage(divvy::nvml::Device device, unsigned* milliwatts);
/// The energy that the GPU has used since the driver was loaded. Available from the Volta generation on.
DIVVY_NVML nvmlDeviceGetTotalEnergyConsumption(divvy::nvml::Device device, unsigned long long* millijoules);
DIVVY_NVML nvmlDeviceGetEnforcedPowerLimit(divvy::nvml::Device device, unsigned* milliwatts);
DIVVY_NVML nvmlDeviceGetClockInfo(divvy::nvml::Device device, unsigned clock, unsigned* mhz);
DIVVY_NVML nvmlDeviceGetMaxClockInfo(divvy::nvml::Device device, unsigned clock, unsigned* mhz);
DIVVY_NVML nvmlDeviceGetCudaComputeCapability(divvy::nvml::Device device, int* major, int* minor);
DIVVY_NVML nvmlDeviceGetComputeMode(divvy::nvml::Device device, unsigned* mode);
DIVVY_NVML nvmlDeviceGetPersistenceMode(divvy::nvml::Device device, unsigned* mode);

// `count`: in: the size of `list`; out: the number of processes. If `list` is too small: kInsufficientSize.
DIVVY_NVML nvmlDeviceGetComputeRunningProcesses(divvy::nvml::Device device, unsigned* count,
                                                divvy::nvml::ProcessUseV1* list);
DIVVY_NVML nvmlDeviceGetComputeRunningProcesses_v2(divvy::nvml::Device device, unsigned* count,
                                                   divvy::nvml::ProcessUse* list);
DIVVY_NVML nvmlDeviceGetComputeRunningProcesses_v3(divvy::nvml::Device device, unsigned* count,
                                                   divvy::nvml::ProcessUse* list);
DIVVY_NVML nvmlDeviceGetGraphicsRunningProcesses(divvy::nvml::Device device, unsigned* count,
                                                 divvy::nvml::ProcessUseV1* list);
DIVVY_NVML nvmlDeviceGetGraphicsRunningProcesses_v2(divvy::nvml::Device device, unsigned* count,
                                                    divvy::nvml::ProcessUse* list);
DIVVY_NVML nvmlDeviceGetGraphicsRunningProcesses_v3(divvy::nvml::Device device, unsigned* count,
                                                    divvy::nvml::ProcessUse* list);
DIVVY_NVML nvmlDeviceGetMPSComputeRunningProcesses_v2(divvy::nvml::Device device, unsigned* count,
                                                      divvy::nvml::ProcessUse* list);
DIVVY_NVML nvmlDeviceGetMPSComputeRunningProcesses_v3(divvy::nvml::Device device, unsigned* count,
                                                      divvy::nvml::ProcessUse* list);

DIVVY_NVML nvmlDeviceGetTopologyCommonAncestor(divvy::nvml::Device a, divvy::nvml::Device b,
                                               divvy::nvml::TopologyLevel* level);
DIVVY_NVML nvmlDeviceGetNvLinkState(divvy::nvml::Device device, unsigned link, unsigned* is_active);
DIVVY_NVML nvmlDeviceGetNvLinkRemotePciInfo(divvy::nvml::Device device, unsigned link, divvy::nvml::PciAddress* pci);
DIVVY_NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(divvy::nvml::Device device, unsigned link, divvy::nvml::PciAddress* pci);
DIVVY_NVML nvmlDeviceGetNvLinkRemoteDeviceType(divvy::nvml::Device device, unsigned link, divvy::nvml::LinkEnd* end);
DIVVY_NVML nvmlDeviceGetMigMode(divvy::nvml::Device device, unsigned* current, unsigned* pending);
DIVVY_NVML nvmlDeviceGetMaxMigDeviceCount(divvy::nvml::Device device, unsigned* count);
/// `activation`: the immediate result. kResetRequired: takes effect after a reset. kInUse: programs are on the GPU.
DIVVY_NVML nvmlDeviceSetMigMode(divvy::nvml::Device device, unsigned mode, divvy::nvml::Return* activation);
DIVVY_NVML nvmlDeviceGetGpuInstanceProfileInfo(divvy::nvml::Device device, unsigned slices,
                                               divvy::nvml::GpuInstanceProfile* profile);
// `count`: output. The list must have room for all (kMostPlaces), or be null.
DIVVY_NVML nvmlDeviceGetGpuInstancePossiblePlacements_v2(divvy::nvml::Device device, unsigned profile_id,
                                                         divvy::nvml::SlicePlace* places, unsigned* count);
DIVVY_NVML nvmlDeviceCreateGpuInstanceWithPlacement(divvy::nvml::Device device, unsigned profile_id,
                                                    const divvy::nvml::SlicePlace* place,
                                                    divvy::nvml::GpuInstance* instance);
DIVVY_NVML nvmlDeviceGetGpuInstances(divvy::nvml::Device device, unsigned profile_id,
                                     divvy::nvml::GpuInstance* instances, unsigned* count);
DIVVY_NVML nvmlGpuInstanceGetInfo(divvy::nvml::GpuInstance instance, divvy::nvml::GpuInstanceInfo* info);
DIVVY_NVML nvmlGpuInstanceDestroy(divvy::nvml::GpuInstance instance);
DIVVY_NVML nvmlGpuInstanceGetComputeInstanceProfileInfo(divvy::nvml::GpuInstance instance, unsigned slices,
                                                        unsigned engines, divvy::nvml::ComputeInstanceProfile* profile);
DIVVY_NVML nvmlGpuInstanceCreateComputeInstance(divvy::nvml::GpuInstance instance, unsigned profile_id,
                                                divvy::nvml::ComputeInstance* made);
DIVVY_NVML nvmlGpuInstanceGetComputeInstances(divvy::nvml::GpuInstance instance, unsigned profile_id,
                                              divvy::nvml::ComputeInstance* instances, unsigned* count);
DIVVY_NVML nvmlComputeInstanceGetInfo_v2(divvy::nvml::ComputeInstance instance, divvy::nvml::ComputeInstanceInfo* info);
DIVVY_NVML nvmlComputeInstanceDestroy(divvy::nvml::ComputeInstance instance);
DIVVY_NVML nvmlDeviceGetMigDeviceHandleByIndex(divvy::nvml::Device device, unsigned index, divvy::nvml::Device* mig);
DIVVY_NVML nvmlDeviceGetDeviceHandleFromMigDeviceHandle(divvy::nvml::Device mig, divvy::nvml::Device* device);
DIVVY_NVML nvmlDeviceIsMigDeviceHandle(divvy::nvml::Device device, unsigned* is_mig);
DIVVY_NVML nvmlDeviceGetGpuInstanceId(divvy::nvml::Device mig, unsigned* id);
DIVVY_NVML nvmlDeviceGetComputeInstanceId(divvy::nvml::Device mig, unsigned* id);
DIVVY_NVML nvmlDeviceGetMemoryAffinity(divvy::nvml::Device device, unsigned words, unsigned long* nodes,
                                       unsigned scope);
DIVVY_NVML nvmlDeviceGetCpuAffinity(divvy::nvml::Device device, unsigned words, unsigned long* cpus);

DIVVY_NVML nvmlDeviceGetTotalEccErrors(divvy::nvml::Device device, unsigned error, unsigned counter,
                                       unsigned long long* count);
DIVVY_NVML nvmlDeviceGetRemappedRows(divvy::nvml::Device device, unsigned* correctable, unsigned* uncorrectable,
                                     unsigned* is_pending, unsigned* has_failed);
DIVVY_NVML nvmlDeviceGetFieldValues(divvy::nvml::Device device, int count, divvy::nvml::FieldValue* values);

DIVVY_NVML nvmlDeviceGetCurrentClocksThrottleReasons(divvy::nvml::Device device, unsigned long long* reasons);
DIVVY_NVML nvmlDeviceGetCurrentClocksEventReasons(divvy::nvml::Device device, unsigned long long* reasons);
// `count`: in: the size of `list`; out: the number of samples. Only samples after `seen_us` are returned.
DIVVY_NVML nvmlDeviceGetProcessUtilization(divvy::nvml::Device device, divvy::nvml::ProcessUtilisation* list,
                                           unsigned* count, unsigned long long seen_us);
DIVVY_NVML nvmlGpmQueryDeviceSupport(divvy::nvml::Device device, divvy::nvml::GpmSupport* support);
DIVVY_NVML nvmlGpmSampleAlloc(divvy::nvml::GpmSample* sample);
DIVVY_NVML nvmlGpmSampleFree(divvy::nvml::GpmSample sample);
DIVVY_NVML nvmlGpmSampleGet(divvy::nvml::Device device, divvy::nvml::GpmSample sample);
DIVVY_NVML nvmlGpmMetricsGet(divvy::nvml::GpmMetrics* metrics);

DIVVY_NVML nvmlEventSetCreate(divvy::nvml::EventSet* set);
DIVVY_NVML nvmlEventSetFree(divvy::nvml::EventSet set);
DIVVY_NVML nvmlDeviceGetSupportedEventTypes(divvy::nvml::Device device, unsigned long long* types);
DIVVY_NVML nvmlDeviceRegisterEvents(divvy::nvml::Device device, unsigned long long types, divvy::nvml::EventSet set);
DIVVY_NVML nvmlEventSetWait(divvy::nvml::EventSet set, divvy::nvml::Event* event, unsigned timeout_ms);
DIVVY_NVML nvmlEventSetWait_v2(divvy::nvml::EventSet set, divvy::nvml::Event* event, unsigned timeout_ms);

/// Only in the stand-in: sets the world file that the next nvmlInit_v2 opens. It takes precedence over DIVVY_EMULATE
/// and the library's own folder.
DIVVY_NVML divvyEmulateUse(const char* world_path);

#undef DIVVY_NVML
}
