// What the parts of the stand-in driver (libcuda.so.1) share: the state of this process, and the guard that every entry
// point begins with. One monitor protects all of it; whoever waits, waits on it and lets the others in.
//
// Handles are the objects themselves. Device pointers are addresses of this process: all memory is pages of files
// (memfd) that are mapped, so that memory nobody touched costs nothing and memory can be mapped elsewhere.
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "platform/emulation/emulation_cuda.h"
#include "platform/gpu/cuda_api.h"

namespace divvy::cuda {

inline constexpr size_t kPage = 4096;
inline constexpr size_t kChunk = 2 << 20;             // Granularity of virtual memory, as drivers have it.
inline constexpr size_t kContextBytes = 256UL << 20;  // Of a context, unless DIVVY_EMULATE_CUDA_CONTEXT says more.
inline constexpr unsigned kMostQueued = 1024;         // Commands of a stream; a launch waits beyond.
inline constexpr uint64_t kKernelNs = 5000;           // A kernel that nothing is known of.
inline constexpr int kDriverVersion = 13000;

inline size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// A growing list; order is kept.
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

/// Pages of a file that are a piece of a device's memory, or of the host's.
struct Physical {
  int fd;
  bool owns_fd;  // Its own file, which may be given to others; else a piece of the arena.
  off_t offset;
  size_t bytes;
  Device device;  // -1: the host.
  unsigned references;
  bool is_counted;
  bool is_given;  // Its handle was given to other processes.
  AllocationProperties properties;
};

enum RangeKind : int {
  kPlain,       // cuMemAlloc and what is like it.
  kPinned,      // cuMemHostAlloc.
  kRegistered,  // cuMemHostRegister: memory of the program.
  kManagedRange,
  kPooled,
  kReserved,  // Addresses without memory.
  kMapped,    // cuMemMap.
  kImported,  // Of another process.
  kOfArray,
  kOfGraph,
  kGlobal,
};

/// A range of addresses.
struct Range {
  char* start;
  size_t bytes;  // Mapped.
  size_t asked;
  RangeKind kind;
  Physical* physical;  // Null: reserved, registered.
  size_t offset;       // Of the range in its physical memory.
  Context context;
  Device device;
  Pool pool;
  unsigned flags;
  int access;           // Access
  bool is_used;         // kOfGraph: allocated now; else only kept.
  unsigned references;  // kOfGraph: nodes that name it.
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

/// One thing that a stream has to do, and a node of a graph as well.
struct Command {
  Command* next;
  CommandKind kind;
  uint64_t number;        // Order of submission in the context.
  uint64_t submitted_ns;  // CLOCK_MONOTONIC
  // kRunKernel
  Function function;
  void* arguments;  // Copy; one after the other, as the entry lays them out.
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
  pthread_cond_t changed;  // Anything that a caller may wait for.
  unsigned waiters;
  bool is_ready;
  bool is_forked;
  Return start_error;
  unsigned state;  // ProcessState
  emulation::CudaFile* file;
  const emulation::World* world;
  unsigned slot;
  unsigned gpu_count;
  unsigned gpus[emulation::kMaxGpus];  // By ordinal: the index in the world.
  emulation::WorldInstance instance;   // The MIG instance that is its one device, if any.
  int arena;
  off_t arena_end;
  List<Range*> ranges;  // By address.
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
  unsigned foreign;  // Pieces of memory that other processes have too, or may have.
  unsigned managed;
  unsigned outside;  // Calls at work on memory outside the monitor.
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
  bool is_busy;  // Its thread is at work, outside the monitor.
  pthread_t thread;
  pthread_cond_t work;
  Stream legacy;
  List<Stream> streams;  // All, the legacy one too.
  List<Module> modules;
  List<Context> peers;
  uint64_t submitted;
  size_t residual;  // Bytes counted for it: its own and its modules'.
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
  uint64_t ended_ns;  // When its last kernel ended.
  pthread_t owner;    // Of a thread's own stream.
  bool is_per_thread;
  Graph capture;
  bool is_capture_origin;
  bool is_capture_spoiled;  // Somebody waited for the whole context meanwhile.
  bool is_removed;
};

struct OpaqueEvent {
  unsigned flags;
  uint64_t requested;  // Times that it was recorded,
  uint64_t done;       // and reached.
  uint64_t reached_ns;
  Graph capture;
  Device device;
  unsigned uses;  // Commands that name it.
  bool is_removed;
};

/// An entry of a module: a kernel.
struct OpaqueFunction {
  char name[128];
  Module module;
  size_t parameter_count;
  size_t parameter_offset[64];
  size_t parameter_bytes[64];
  size_t bytes;  // Of all parameters.
  uint64_t duration_ns;
  int play;  // What the stand-in does for it: cuda_kernels.cc.
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
  Range* range;  // Null: memory is mapped later.
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
  Command* command;  // Null: nothing to do.
  AllocNode alloc;   // kNodeAlloc
  Range* range;      // kNodeAlloc
  Pointer freed;     // kNodeFree
  GraphNode origin;  // In an instantiated graph: what it was made of.
  List<GraphNode> before;
};

struct OpaqueGraph {
  List<GraphNode> nodes;  // In the order in which they were added, which is one in which they may run.
  uint64_t id;
};

struct OpaqueGraphExec {
  Graph graph;
  unsigned long long flags;
};

/// The guard of an entry point: takes the monitor, waits while this process is locked or checkpointed, and says what to
/// return at once, if anything. `has_context`: one must be current, and well.
class Call {
 public:
  enum Need { kNothingNeeded, kInitialized, kContext };
  explicit Call(Need need = kContext);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Return error = kSuccess;
  Context context = nullptr;
  bool is_per_thread = false;  // Stream 0 is the thread's own.

  /// The stream that a handle means, or null.
  Stream Resolve(Stream stream);
};

/// While one lives, its thread is outside the monitor, at work on memory; checkpoints wait for it.
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

/// Waits for a change. Requires: the monitor, as all below.
void WaitForChange();
void AnnounceChange();
/// A call that waited for something goes on only while the process may.
void WaitWhileLocked();

uint64_t Now();
/// Sleeps until a time of CLOCK_MONOTONIC.
void SleepUntil(uint64_t nanoseconds);

// cuda_shared.cc: the file of all processes.
Return OpenShared();
emulation::CudaProcess& MySlot();
emulation::CudaUse& MyUse(Device device);
const emulation::WorldFacts& FactsOf(Device device);
/// Counts bytes of a device for this process; kOutOfMemory when there are not so many left. `is_residual`: of contexts.
Return TakeMemory(Device device, size_t bytes, bool is_residual);
void GiveMemory(Device device, size_t bytes, bool is_residual);
void ReadMemory(Device device, size_t& free_bytes, size_t& total);
/// The GPU has fallen off the bus (divvy emulate lose).
bool IsLost(unsigned gpu);
/// The file's and this process's faults for a device.
Faults FaultsOf(Device device);
/// True when this allocation is the one that is to fail.
bool IsFailingAllocation(Device device);
unsigned TakeStickyFault(Device device);

// cuda_turns.cc: time of a GPU.
/// Uses the GPU for `duration` from `ready_ns` on, or when it is free, in turns with others. Returns when it ended.
/// Outside the monitor.
uint64_t UseGpu(unsigned gpu, uint64_t ready_ns, uint64_t duration);
/// This thread has nothing more to do on the GPU for now. Outside the monitor.
void LeaveGpu(unsigned gpu);

// cuda_ranges.cc: memory and addresses.
Physical* MakePhysical(Device device, size_t bytes, bool is_exportable, Return* error);
void Release(Physical* physical);
void CountPhysical(Physical* physical, bool is_counted);
/// Maps `physical` at `at` (null: anywhere) and adds the range.
Range* MapRange(RangeKind kind, Physical* physical, char* at, size_t asked, Context context);
/// Device memory of one piece, mapped: the common form of all allocations. Null: `error` says why.
Range* AllocateRange(RangeKind kind, Context context, size_t bytes, Return* error);
void RemoveRange(Range* range);
void ProtectRange(const Range* range, bool is_hidden);
/// Whether this process can be checkpointed, for all to see.
void TellWhetherMovable();
Range* RangeAt(Pointer pointer);
Range* RangeFrom(Pointer pointer);  // Only where one begins.
void AddRange(Range* range);
void ForgetRange(Range* range);

// cuda_copy_engine.cc: outside the monitor.
void CopyBytes(void* target, const void* source, size_t bytes);
void ZeroBytes(void* target, size_t bytes);
void FillBytes(Pointer target, size_t bytes, unsigned value, unsigned element);
void CopyShape(const Copy3D& copy);
/// Waits for what the copy-rate fault makes of it.
void PayCopy(Device device, size_t bytes);

// cuda_queue.cc: streams and the thread of a context.
Return StartContextThread(Context context);
void StopContextThread(Context context);
Command* NewCommand(CommandKind kind);
void FreeCommand(Command* command);
Command* CloneCommand(const Command* command);
/// Hands a command over: to the stream, or to the graph that the stream records.
Return Submit(Stream stream, Command* command);
void WaitForStream(Stream stream);
void WaitForContext(Context context);
bool IsStreamDone(const OpaqueStream* stream);
Stream NewStream(Context context, unsigned flags, int priority);
void RemoveStream(Stream stream);

// cuda_kernels.cc
void LearnPlay(Function function);
/// Plays a kernel and returns how long it takes.
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
/// A command that launches `function`, its arguments copied. Null: kInvalidValue.
Command* MakeLaunch(Function function, void** parameters, void** extra);

// cuda_checkpoint.cc
Return StartService();

}  // namespace divvy::cuda

/// Set by the entry points that end in _ptsz and _ptds for the entry point that they jump to.
extern "C" __attribute__((visibility("hidden"))) __thread unsigned char divvy_cuda_per_thread;
