// Shared declarations of the stand-in driver (libcuda.so.1): the state of this process, and the guard at the start of
// every entry point. One monitor protects all state. A thread that waits releases the monitor.
//
// Handles are pointers to the objects. Device pointers are addresses in this process. All memory consists of mapped
// pages of memfd files: untouched memory costs nothing, and memory can be mapped at other addresses.
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "platform/emulation/emulation_cuda.h"
#include "platform/gpu/cuda_api.h"

namespace divvy::cuda {

inline constexpr size_t kPage = 4096;
inline constexpr size_t kChunk = 2 << 20;  // Granularity of virtual memory, as in real drivers.
// Size of a context, unless DIVVY_EMULATE_CUDA_CONTEXT overrides it.
inline constexpr size_t kContextBytes = 256UL << 20;
inline constexpr unsigned kMostQueued = 1024;  // Maximum of a stream's queued commands; further launches wait.
inline constexpr uint64_t kKernelNs = 5000;    // Duration of an unknown kernel.
inline constexpr int kDriverVersion = 13000;

inline size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// A growing list that keeps its order.
template <typename T>
struct List {
  T* items;
  size_t count;
  size_t room;

  T* begin() const { return items; }
  T* end() const { return items + count; }
  T& operator[](size_t i) const { return items[i]; }
  void InsertAt(size_t at, T item) {
    if (count == room) {
      room = room == 0 ? 16 : room * 2;
      items = static_cast<T*>(realloc(static_cast<void*>(items), room * sizeof(T)));
      if (items == nullptr) abort();
    }
    memmove(static_cast<void*>(items + at + 1), static_cast<const void*>(items + at), (count - at) * sizeof(T));
    items[at] = item;
    ++count;
  }
  void Add(T item) { InsertAt(count, item); }
  void RemoveAt(size_t at) {
    --count;
    memmove(static_cast<void*>(items + at), static_cast<const void*>(items + at + 1), (count - at) * sizeof(T));
  }
  bool Remove(T item) {
    for (size_t i = 0; i < count; ++i) {
      if (items[i] == item) return RemoveAt(i), true;
    }
    return false;
  }
  void Free() {
    free(static_cast<void*>(items));
    *this = {};
  }
};

template <typename T>
T* New() {
  auto* made = static_cast<T*>(calloc(1, sizeof(T)));
  if (made == nullptr) abort();
  return made;
}

/// Pages of a file that represent a piece of device or host memory.
struct Physical {
  int fd;
  bool owns_fd;  // Has its own file, which may be shared with other processes. Otherwise a piece of the arena.
  off_t offset;
  size_t bytes;
  Device device;  // -1 for host memory.
  unsigned references;
  bool is_counted;
  bool is_given;  // Its handle was exported to other processes.
  AllocationProperties properties;
};

enum RangeKind : int {
  kPlain,       // cuMemAlloc and similar calls.
  kPinned,      // cuMemHostAlloc.
  kRegistered,  // cuMemHostRegister: the program's own memory.
  kManagedRange,
  kPooled,
  kReserved,  // Reserved addresses without memory.
  kMapped,    // cuMemMap.
  kImported,  // From another process.
  kOfArray,
  kOfGraph,
  kGlobal,
};

/// A range of addresses.
struct Range {
  char* start;
  size_t bytes;  // Mapped bytes.
  size_t asked;
  RangeKind kind;
  Physical* physical;  // Null for reserved and registered ranges.
  size_t offset;       // Offset of the range in its physical memory.
  Context context;
  Device device;
  Pool pool;
  unsigned flags;
  int access;           // An Access value.
  bool is_used;         // kOfGraph: allocated now. Otherwise the range is only kept for reuse.
  unsigned references;  // kOfGraph: number of nodes that refer to it.
  uint64_t id;
};

enum CommandKind : int {
  kRunKernel,
  kCopy,
  kFill,
  kCallHost,
  kCallBack,
  kRecord,
  kWait,
  kFreePooled,
  kWriteValue,
  kCopyShaped
};

/// A command in a stream, also used as a graph node's operation.
struct Command {
  Command* next;
  CommandKind kind;
  uint64_t number;        // Submission order in the context.
  uint64_t submitted_ns;  // CLOCK_MONOTONIC
  // kRunKernel
  Function function;
  void* arguments;  // Copied arguments, laid out as the kernel expects.
  // kCopy, kFill, kFreePooled, values
  Pointer target;
  Pointer source;
  size_t bytes;
  size_t rows;
  size_t pitch;
  unsigned value;
  unsigned element;
  uint64_t wide_value;
  Copy3D* shaped;
  // kCallHost, kCallBack
  HostFunction host;
  StreamCallback callback;
  void* user;
  // kRecord, kWait
  Event event;
  uint64_t version;
};

struct Faults {
  uint64_t out_of_memory_at;
  uint64_t copy_rate;
  unsigned sticky_error;
  bool refuse_checkpoint;
  bool refuse_restore;
};

/// The state of this process.
struct Driver {
  pthread_mutex_t monitor;
  pthread_cond_t changed;  // Signalled on any change that a caller may wait for.
  unsigned waiters;
  bool is_ready;
  bool is_forked;
  Return start_error;
  unsigned state;  // ProcessState
  emulation::CudaFile* file;
  const emulation::World* world;
  unsigned slot;
  unsigned gpu_count;
  unsigned gpus[emulation::kMaxGpus];  // Index in the world, by ordinal.
  emulation::WorldInstance instance;   // The MIG instance that is its only device, if any.
  int arena;
  off_t arena_end;
  List<Range*> ranges;  // Sorted by address.
  List<Context> contexts;
  Context primary[emulation::kMaxGpus];
  unsigned primary_users[emulation::kMaxGpus];
  unsigned primary_flags[emulation::kMaxGpus];
  List<Pool> pools;
  Pool default_pool[emulation::kMaxGpus];
  Pool current_pool[emulation::kMaxGpus];
  size_t graph_reserved_high[emulation::kMaxGpus];
  size_t context_bytes;
  Faults faults;
  uint64_t next_id;
  unsigned allocations;
  unsigned foreign;  // Allocations that other processes share, or may share.
  unsigned managed;
  unsigned outside;  // Calls that access memory outside the monitor.
};
extern Driver driver;

struct OpaqueContext {
  Device device;
  unsigned flags;
  unsigned api_version;
  uint64_t id;
  Return sticky;
  bool is_primary;
  bool is_ending;
  bool is_idle;  // Its thread waits for work.
  bool is_busy;  // Its thread works outside the monitor.
  pthread_t thread;
  pthread_cond_t work;
  Stream legacy;
  List<Stream> streams;  // All streams, including the legacy one.
  List<Module> modules;
  List<Context> peers;
  uint64_t submitted;
  size_t residual;  // Bytes counted for the context itself and its modules.
  size_t limits[16];
};

struct OpaqueStream {
  Context context;
  unsigned flags;
  int priority;
  uint64_t id;
  Command* first;
  Command* last;
  unsigned queued;
  uint64_t submitted;  // Number of the last command.
  uint64_t done;
  uint64_t ended_ns;    // When its last kernel ended.
  uint64_t reached_ns;  // When its last event was reached.
  pthread_t owner;      // The owner of a per-thread stream.
  bool is_per_thread;
  Graph capture;
  bool is_capture_origin;
  bool is_capture_spoiled;  // A thread waited for the whole context meanwhile.
  bool is_removed;
};

struct OpaqueEvent {
  unsigned flags;
  uint64_t requested;  // Number of times it was recorded.
  uint64_t done;       // Number of the latest recording that was reached.
  uint64_t reached_ns;
  Graph capture;
  Device device;
  unsigned uses;  // Number of commands that refer to it.
  bool is_removed;
};

/// A kernel of a module.
struct OpaqueFunction {
  char name[128];
  Module module;
  size_t parameter_count;
  size_t parameter_offset[64];
  size_t parameter_bytes[64];
  size_t bytes;  // Total bytes of all parameters.
  uint64_t duration_ns;
  bool is_loaded;  // Launched, or loaded by cuFuncLoad.
  int play;        // How the stand-in executes it (cuda_kernels.cc).
};

struct Global {
  char name[128];
  size_t bytes;
  Range* range;
};

struct OpaqueModule {
  Context context;
  List<Function> functions;
  List<Global> globals;
  size_t residual;
  bool is_library;
};

struct OpaquePool {
  Device device;
  bool is_default;
  uint64_t threshold;
  List<Range*> idle;
  size_t reserved;
  size_t reserved_high;
  size_t used;
  size_t used_high;
  size_t max;
};

struct OpaqueArray {
  Array3DShape shape;
  Range* range;  // Null if memory is mapped later.
  size_t element;
  MipmappedArray parent;
};

struct OpaqueMipmappedArray {
  Array3DShape shape;
  List<Array> levels;
};

struct OpaqueGraphNode {
  GraphNodeType type;
  Graph graph;
  Command* command;  // Null if there is nothing to execute.
  AllocNode alloc;   // kNodeAlloc
  Range* range;      // kNodeAlloc
  Pointer freed;     // kNodeFree
  GraphNode origin;  // In an instantiated graph: the node it was created from.
  List<GraphNode> before;
};

struct OpaqueGraph {
  List<GraphNode> nodes;  // In the order of addition, which is a valid order of execution.
  uint64_t id;
};

struct OpaqueGraphExec {
  Graph graph;
  unsigned long long flags;
};

/// The guard of an entry point. It takes the monitor and waits while this process is locked or checkpointed. If `error`
/// is set, the entry point must return it at once. kContext: a current, intact context is required.
class Call {
 public:
  enum Need { kNothingNeeded, kInitialized, kContext };
  explicit Call(Need need = kContext);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Return error = kSuccess;
  Context context = nullptr;
  bool is_per_thread = false;  // Stream 0 means the thread's own stream.

  /// Returns the stream that a handle of the program means, or null if the handle is not valid.
  Stream Resolve(Stream stream);
};

/// While an instance exists, its thread accesses memory outside the monitor; checkpoints wait for it.
class Outside {
 public:
  Outside() {
    ++driver.outside;
    pthread_mutex_unlock(&driver.monitor);
  }
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;
};

/// Waits until AnnounceChange is called. The caller must hold the lock of this process's state (the monitor), as for
/// all functions below unless stated otherwise.
void WaitForChange();
void AnnounceChange();
/// Blocks a CUDA call that has waited for something, as long as this process is locked for a checkpoint.
void WaitWhileLocked();

uint64_t Now();
/// Sleeps until `nanoseconds` on CLOCK_MONOTONIC.
void SleepUntil(uint64_t nanoseconds);

// cuda_shared.cc: the file shared by all processes.
Return OpenShared();
emulation::CudaProcess& MySlot();
emulation::CudaUse& MyUse(Device device);
const emulation::WorldFacts& FactsOf(Device device);
/// Counts `bytes` of the device's memory as used by this process. Returns kOutOfMemory if the device has fewer left.
/// `is_residual`: the memory is for a context, not for an allocation.
Return TakeMemory(Device device, size_t bytes, bool is_residual);
void GiveMemory(Device device, size_t bytes, bool is_residual);
void ReadMemory(Device device, size_t& free_bytes, size_t& total);
/// Returns true if the GPU is simulated as lost (`divvy emulate lose`): it has fallen off the bus.
bool IsLost(unsigned gpu);
/// Returns the faults to simulate on this device: those set for all processes (shared file) and for this process.
Faults FaultsOf(Device device);
/// Returns true if the allocation that is being made shall fail, by a simulated fault.
bool IsFailingAllocation(Device device);
unsigned TakeStickyFault(Device device);

// cuda_turns.cc: sharing the time of a GPU.
/// Simulates work of `duration` nanoseconds on the GPU. It starts at `ready_ns` or when the GPU becomes free, in turns
/// with other processes. Returns the end time. The caller must not hold the monitor.
uint64_t UseGpu(unsigned gpu, uint64_t ready_ns, uint64_t duration);
/// Declares that this thread has no more work for the GPU for now. The caller must not hold the monitor.
void LeaveGpu(unsigned gpu);

// cuda_ranges.cc: memory and addresses.
Physical* MakePhysical(Device device, size_t bytes, bool is_exportable, Return* error);
void Release(Physical* physical);
void CountPhysical(Physical* physical, bool is_counted);
/// Maps the memory `physical` at the address `at` (null: at any address), and records the range of addresses.
Range* MapRange(RangeKind kind, Physical* physical, char* at, size_t asked, Context context);
/// Allocates and maps contiguous device memory; most allocations use this. Returns null with the reason in `error`.
Range* AllocateRange(RangeKind kind, Context context, size_t bytes, Return* error);
void RemoveRange(Range* range);
void ProtectRange(const Range* range, bool is_hidden);
/// Writes to the shared file whether this process can be checkpointed.
void TellWhetherMovable();
Range* RangeAt(Pointer pointer);
Range* RangeFrom(Pointer pointer);  // Returns a range only if it starts at `pointer`.
void AddRange(Range* range);
void ForgetRange(Range* range);

// cuda_copy_engine.cc: to be called outside the monitor.
void CopyBytes(void* target, const void* source, size_t bytes);
void ZeroBytes(void* target, size_t bytes);
void FillBytes(Pointer target, size_t bytes, unsigned value, unsigned element);
void CopyShape(const Copy3D& copy);
/// Waits as long as a copy of `bytes` takes at the simulated copy rate, if one is set as a fault.
void PayCopy(Device device, size_t bytes);

// cuda_queue.cc: streams and the threads of contexts.
Return StartContextThread(Context context);
void StopContextThread(Context context);
Command* NewCommand(CommandKind kind);
void FreeCommand(Command* command);
Command* CloneCommand(const Command* command);
/// Submits a command to the stream, or to the graph that the stream is capturing.
Return Submit(Stream stream, Command* command);
void WaitForStream(Stream stream);
void WaitForContext(Context context);
bool IsStreamDone(const OpaqueStream* stream);
Stream NewStream(Context context, unsigned flags, int priority);
void RemoveStream(Stream stream);

// cuda_kernels.cc
void LearnPlay(Function function);
/// Executes the effect of a kernel and returns how long it takes, in nanoseconds.
uint64_t PlayKernel(Function function, const void* arguments, Return* error);

// cuda_contexts.cc
Context MakeContext(Device device, unsigned flags, bool is_primary, Return* error);
void EndContext(Context context);

// cuda_modules.cc
void UnloadModule(Module module);

// cuda_pools.cc
Pool PoolOf(Device device);
void ReturnToPool(Range* range);
void TrimPools(Device device);

// cuda_graphs.cc
GraphNode AddNode(Graph graph, GraphNodeType type, Command* command, const GraphNode* before, size_t count);

// cuda_launch.cc
/// Returns a command that launches the kernel `function` with a copy of its arguments. Returns null if the arguments
/// are not valid (kInvalidValue).
Command* MakeLaunch(Function function, void** parameters, void** extra);

// cuda_checkpoint.cc
Return StartService();

}  // namespace divvy::cuda

/// True if stream 0 means the thread's own stream in the present call. The entry points with the suffix _ptsz or _ptds
/// set it before they jump to the plain ones.
extern "C" __attribute__((visibility("hidden"))) __thread unsigned char divvy_cuda_per_thread;
