// Types and constants of the CUDA driver's C ABI as divvy uses them (x86-64 Linux). divvy is built without NVIDIA's
// header, so they are declared here once for three users: code that loads the driver, the stand-in driver (emulate/),
// and the library that intercepts calls (interpose/). Layouts and values are facts of the ABI: never change one. The
// types have names of this code base; the comment above each gives NVIDIA's name.
#pragma once

#include <stddef.h>

namespace divvy::cuda {

using Device = int;                     // CUdevice: an ordinal.
using Pointer = unsigned long long;     // CUdeviceptr
using Allocation = unsigned long long;  // CUmemGenericAllocationHandle
using Context = struct OpaqueContext*;
using GreenContext = struct OpaqueGreenContext*;
using Stream = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using Module = struct OpaqueModule*;
using Function = struct OpaqueFunction*;
using Library = struct OpaqueLibrary*;
using Kernel = struct OpaqueKernel*;
using Graph = struct OpaqueGraph*;
using GraphNode = struct OpaqueGraphNode*;
using GraphExec = struct OpaqueGraphExec*;
using Array = struct OpaqueArray*;
using MipmappedArray = struct OpaqueMipmappedArray*;
using Pool = struct OpaquePool*;
using ExternalMemory = struct OpaqueExternalMemory*;
using ExternalSemaphore = struct OpaqueExternalSemaphore*;
using LinkState = struct OpaqueLinkState*;
using ResourceDescriptor = struct OpaqueResourceDescriptor*;  // CUdevResourceDesc

/// CUresult. A driver may return numbers that are not named here.
enum Return : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kMapFailed = 205,
  kUnmapFailed = 206,
  kPeerAccessUnsupported = 217,
  kInvalidPtx = 218,
  kFileNotFound = 301,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kPrimaryContextActive = 708,
  kContextIsDestroyed = 709,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kMpsClientTerminated = 810,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureUnmatched = 903,
  kTimeout = 909,
  kInvalidResourceType = 914,
  kUnknown = 999,
};

// Streams that exist without being created: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD.
inline constexpr unsigned long long kStreamLegacy = 1;
inline constexpr unsigned long long kStreamPerThread = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;

/// CUdevice_attribute
enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockDimX = 2,
  kMaxBlockDimY = 3,
  kMaxBlockDimZ = 4,
  kMaxGridDimX = 5,
  kMaxGridDimY = 6,
  kMaxGridDimZ = 7,
  kMaxSharedMemoryPerBlock = 8,
  kTotalConstantMemory = 9,
  kWarpSize = 10,
  kMaxPitch = 11,
  kMaxRegistersPerBlock = 12,
  kClockRate = 13,
  kTextureAlignment = 14,
  kGpuOverlap = 15,
  kMultiprocessorCount = 16,
  kCanMapHostMemory = 19,
  kComputeMode = 20,
  kConcurrentKernels = 31,
  kPciBusId = 33,
  kPciDeviceId = 34,
  kMemoryClockRate = 36,
  kGlobalMemoryBusWidth = 37,
  kL2CacheSize = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kAsyncEngineCount = 40,
  kUnifiedAddressing = 41,
  kPciDomainId = 50,
  kTexturePitchAlignment = 51,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kStreamPrioritiesSupported = 78,
  kMaxSharedMemoryPerMultiprocessor = 81,
  kMaxRegistersPerMultiprocessor = 82,
  kManagedMemory = 83,
  kConcurrentManagedAccess = 89,
  kComputePreemptionSupported = 90,
  kCanUseHostPointerForRegisteredMemory = 91,
  kCooperativeLaunch = 95,
  kMaxSharedMemoryPerBlockOptIn = 97,
  kHostRegisterSupported = 99,
  kVirtualMemoryManagementSupported = 102,
  kHandleTypePosixFileDescriptorSupported = 103,
  kMaxBlocksPerMultiprocessor = 106,
  kMemoryPoolsSupported = 115,
  kMempoolSupportedHandleTypes = 119,
  kIpcEventSupported = 125,
  kUnifiedFunctionPointers = 129,
};

/// CUpointer_attribute
enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDevicePointer = 3,
  kPointerHostPointer = 4,
  kPointerSyncMemops = 6,
  kPointerBufferId = 7,
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
  kPointerIsLegacyIpcCapable = 10,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
  kPointerMapped = 13,
  kPointerAllowedHandleTypes = 14,
  kPointerAccessFlags = 16,
  kPointerPool = 17,
};

/// CUmemorytype
enum MemoryType : int { kMemoryHost = 1, kMemoryDevice = 2, kMemoryArray = 3, kMemoryUnified = 4 };

/// CUuuid
struct Uuid {
  unsigned char bytes[16];
};

/// CUdevprop
struct DeviceProperties {
  int max_threads_per_block;
  int max_threads_dim[3];
  int max_grid_size[3];
  int shared_memory_per_block;
  int total_constant_memory;
  int warp_size;
  int max_pitch;
  int registers_per_block;
  int clock_khz;
  int texture_alignment;
};

/// CUmemLocation
struct Location {
  int type;  // LocationType
  int id;
};
enum LocationType : int { kLocationInvalid = 0, kLocationDevice = 1, kLocationHost = 2 };

/// CUmemAllocationProp
struct AllocationProperties {
  int type;          // kAllocationPinned
  int handle_types;  // HandleType
  Location location;
  void* win32_metadata;
  struct {
    unsigned char compression;
    unsigned char is_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
inline constexpr int kAllocationPinned = 1;
inline constexpr int kAllocationManaged = 2;
/// CUmemAllocationHandleType
enum HandleType : int { kHandleNone = 0, kHandlePosixFileDescriptor = 1, kHandleFabric = 8 };
/// CUmemAllocationGranularity_flags
enum Granularity : int { kGranularityMinimum = 0, kGranularityRecommended = 1 };

/// CUmemAccessDesc
struct AccessRights {
  Location location;
  int flags;  // Access
};
/// CUmemAccess_flags
enum Access : int { kAccessNone = 0, kAccessRead = 1, kAccessReadWrite = 3 };

/// CUmemPoolProps
struct PoolProperties {
  int type;
  int handle_types;
  Location location;
  void* win32_attributes;
  size_t max_size;  // 0: the system's own limit.
  unsigned short usage;
  unsigned char reserved[54];
};
/// CUmemPool_attribute; memory counts are unsigned long long.
enum PoolAttribute : int {
  kPoolReuseFollowEvents = 1,
  kPoolReuseOpportunistic = 2,
  kPoolReuseInternal = 3,
  kPoolReleaseThreshold = 4,
  kPoolReservedNow = 5,
  kPoolReservedHigh = 6,
  kPoolUsedNow = 7,
  kPoolUsedHigh = 8,
};
/// CUmemPoolPtrExportData
struct PoolPointerExport {
  unsigned char reserved[64];
};
/// CUgraphMem_attribute
enum GraphMemoryAttribute : int {
  kGraphUsedNow = 0,
  kGraphUsedHigh = 1,
  kGraphReservedNow = 2,
  kGraphReservedHigh = 3,
};

/// CUDA_MEMCPY2D
struct Copy2D {
  size_t source_x_bytes;
  size_t source_y;
  int source_type;  // MemoryType
  const void* source_host;
  Pointer source_device;
  Array source_array;
  size_t source_pitch;
  size_t target_x_bytes;
  size_t target_y;
  int target_type;
  void* target_host;
  Pointer target_device;
  Array target_array;
  size_t target_pitch;
  size_t width_bytes;
  size_t height;
};

/// One end of CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER. `context` is used only by the latter, and reserved in the former.
struct CopyEnd3D {
  size_t x_bytes;
  size_t y;
  size_t z;
  size_t level;
  int type;  // MemoryType
  void* host;
  Pointer device;
  Array array;
  Context context;
  size_t pitch;
  size_t height;
};
/// CUDA_MEMCPY3D
struct Copy3D {
  CopyEnd3D source;
  CopyEnd3D target;
  size_t width_bytes;
  size_t height;
  size_t depth;
};
/// CUDA_MEMCPY3D_PEER
using Copy3DPeer = Copy3D;

/// CUDA_ARRAY_DESCRIPTOR
struct ArrayShape {
  size_t width;  // Elements.
  size_t height;
  int format;  // ArrayFormat
  unsigned channels;
};
/// CUDA_ARRAY3D_DESCRIPTOR
struct Array3DShape {
  size_t width;
  size_t height;
  size_t depth;
  int format;
  unsigned channels;
  unsigned flags;
};
/// CUarray_format: only the formats whose elements have one, two or four bytes.
enum ArrayFormat : int {
  kFormatUnsigned8 = 1,
  kFormatUnsigned16 = 2,
  kFormatUnsigned32 = 3,
  kFormatSigned8 = 8,
  kFormatSigned16 = 9,
  kFormatSigned32 = 10,
  kFormatHalf = 16,
  kFormatFloat = 32,
};
inline constexpr unsigned kArrayLayered = 1;
inline constexpr unsigned kArraySparse = 0x40;
inline constexpr unsigned kArrayDeferredMapping = 0x80;
/// CUDA_ARRAY_MEMORY_REQUIREMENTS: for arrays with deferred mapping; the driver refuses others.
struct ArrayMemory {
  size_t size;
  size_t alignment;
  unsigned reserved[4];
};
/// CUarrayMapInfo: passed through.
struct ArrayMap;

/// CUlaunchAttributeValue
union LaunchAttributeValue {
  char pad[64];
  int is_cooperative;
};
/// CUlaunchAttribute
struct LaunchAttribute {
  int id;
  char pad[4];
  LaunchAttributeValue value;
};
inline constexpr int kLaunchAttributeCooperative = 2;
/// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
/// CUDA_LAUNCH_PARAMS
struct CooperativeLaunch {
  Function function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  void** parameters;
};
// Keys in `extra` of a launch: CU_LAUNCH_PARAM_*.
inline constexpr unsigned long long kLaunchEnd = 0;
inline constexpr unsigned long long kLaunchBuffer = 1;
inline constexpr unsigned long long kLaunchBufferSize = 2;
using HostFunction = void (*)(void*);                    // CUhostFn
using StreamCallback = void (*)(Stream, Return, void*);  // CUstreamCallback
using BlockToShared = size_t (*)(int);                   // CUoccupancyB2DSize

/// CUDA_KERNEL_NODE_PARAMS, version 1.
struct KernelNodeV1 {
  Function function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** parameters;
  void** extra;
};
/// CUDA_KERNEL_NODE_PARAMS, versions 2 and 3.
struct KernelNode {
  Function function;  // Null if `kernel` is set.
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  Kernel kernel;
  Context context;
};
/// CUDA_MEM_ALLOC_NODE_PARAMS
struct AllocNode {
  PoolProperties pool;
  const AccessRights* rights;
  size_t rights_count;
  size_t bytes;
  Pointer pointer;  // Output.
};
/// CUDA_MEMSET_NODE_PARAMS
struct MemsetNode {
  Pointer target;
  size_t pitch;
  unsigned value;
  unsigned element_bytes;
  size_t width;
  size_t height;
};
/// CUDA_HOST_NODE_PARAMS
struct HostNode {
  HostFunction function;
  void* argument;
};
/// CUgraphNodeType
enum GraphNodeType : int {
  kNodeKernel = 0,
  kNodeMemcpy = 1,
  kNodeMemset = 2,
  kNodeHost = 3,
  kNodeGraph = 4,
  kNodeEmpty = 5,
  kNodeWaitEvent = 6,
  kNodeRecordEvent = 7,
  kNodeAlloc = 10,
  kNodeFree = 11,
};
/// CUgraphNodeParams. Only the members that divvy reads are named: kernel, alloc and free nodes.
struct GraphNodeParams {
  int type;  // GraphNodeType
  int reserved0[3];
  union {
    long long reserved1[29];
    KernelNode kernel;
    AllocNode alloc;
    Pointer free;
  };
  long long reserved2;
};
/// CUgraphEdgeData
struct EdgeData {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};
/// CUDA_GRAPH_INSTANTIATE_PARAMS
struct InstantiateOptions {
  unsigned long long flags;
  Stream upload_stream;
  GraphNode error_node;  // Output.
  int result;            // Output; 0: success.
};
inline constexpr unsigned long long kInstantiateAutoFree = 1;
/// CUgraphExecUpdateResultInfo
struct UpdateResult {
  int result;
  GraphNode error_node;
  GraphNode error_from_node;
};
/// CUstreamCaptureStatus
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };
/// CUstreamBatchMemOpParams, CUexecAffinityParam, CUctxCreateParams: passed through.
union BatchOperation;
struct ExecAffinity;
struct ContextOptions;

/// CUipcMemHandle
struct IpcMemory {
  char reserved[64];
};
/// CUipcEventHandle
struct IpcEvent {
  char reserved[64];
};
/// CUDA_EXTERNAL_MEMORY_HANDLE_DESC
struct ExternalMemoryHandle {
  int type;  // kExternalOpaqueFd
  union {
    int fd;
    struct {
      void* handle;
      const void* name;
    } win32;
    const void* nv_sci_buf_object;
  } handle;
  unsigned long long size;
  unsigned flags;
  unsigned reserved[16];
};
inline constexpr int kExternalOpaqueFd = 1;
/// CUDA_EXTERNAL_MEMORY_BUFFER_DESC
struct ExternalBuffer {
  unsigned long long offset;
  unsigned long long size;
  unsigned flags;
  unsigned reserved[16];
};
/// CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC: passed through.
struct ExternalMipmap;
struct ExternalSemaphoreHandle;

/// CUdriverProcAddressQueryResult
enum ProcAddressResult : int { kProcFound = 0, kProcNotFound = 1, kProcVersionNotSufficient = 2 };
inline constexpr unsigned long long kProcLegacyStream = 1;
inline constexpr unsigned long long kProcPerThreadStream = 2;

/// CUprocessState
enum ProcessState : int { kProcessRunning = 0, kProcessLocked = 1, kProcessCheckpointed = 2, kProcessFailed = 3 };
/// CUcheckpointLockArgs. A null pointer means all zeros, here and below.
struct CheckpointLock {
  unsigned timeout_ms;  // 0: no timeout.
  unsigned reserved0;
  unsigned long long reserved1[7];
};
/// CUcheckpointCheckpointArgs
struct CheckpointSave {
  unsigned long long reserved[8];
};
/// CUcheckpointGpuPair
struct GpuPair {
  Uuid from;
  Uuid to;
};
/// CUcheckpointRestoreArgs of CUDA 13.0 and later (R580). Before that all members were reserved and had to be zero.
struct CheckpointRestore {
  GpuPair* pairs;
  unsigned pair_count;
  char reserved0[52 - sizeof(GpuPair*)];
  unsigned long long reserved1;
};
/// CUcheckpointUnlockArgs
struct CheckpointUnlock {
  unsigned long long reserved[8];
};

inline constexpr int kResourceSm = 1;  // CU_DEV_RESOURCE_TYPE_SM
/// CUdevResource: a number of multiprocessors. The last member was added in CUDA 13.
struct DeviceResource {
  int type;
  unsigned char internal[92];
  unsigned sm_count;
  unsigned min_partition;
  unsigned alignment;
  unsigned flags;
  unsigned char rest[24];
  DeviceResource* next;
};

}  // namespace divvy::cuda

static_assert(sizeof(divvy::cuda::AllocationProperties) == 32);
static_assert(sizeof(divvy::cuda::AccessRights) == 12);
static_assert(sizeof(divvy::cuda::PoolProperties) == 88);
static_assert(sizeof(divvy::cuda::Copy2D) == 128);
static_assert(sizeof(divvy::cuda::Copy3D) == 200);
static_assert(sizeof(divvy::cuda::LaunchConfig) == 56);
static_assert(sizeof(divvy::cuda::LaunchAttribute) == 72);
static_assert(sizeof(divvy::cuda::KernelNode) == 72);
static_assert(sizeof(divvy::cuda::AllocNode) == 120);
static_assert(sizeof(divvy::cuda::GraphNodeParams) == 256);
static_assert(sizeof(divvy::cuda::CheckpointLock) == 64);
static_assert(sizeof(divvy::cuda::CheckpointSave) == 64);
static_assert(sizeof(divvy::cuda::CheckpointRestore) == 64);
static_assert(sizeof(divvy::cuda::CheckpointUnlock) == 64);
static_assert(sizeof(divvy::cuda::DeviceResource) == 144);
