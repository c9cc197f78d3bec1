// The state that the stand-in CUDA drivers (emulate/cuda_*.cc) of all processes share: one file next to the world file,
// mapped by every process that uses an emulated GPU. It records each process's memory on each GPU, which process may
// run there now, and commands from one process to another (checkpoints). The stand-in NVML and ReadEmulatedUses() read
// it.
//
// Used on both sides of a C ABI, so it needs only <cstdint>, <pthread.h> and the compiler.
//
// Crash-safe: locks are robust, and they protect single words, each valid by itself. A dead process is recognised by
// its pid and start time, and its resources no longer count.
#pragma once

#include <errno.h>
#include <pthread.h>

#include <cstdint>

#include "platform/emulation/emulation_world.h"

namespace divvy::emulation {

inline constexpr std::uint32_t kCudaMagic = 0x44565943;  // "CYVD" in the file.
inline constexpr std::uint32_t kCudaLayout = 2;          // Incremented with every change of a struct below.
inline constexpr std::uint32_t kMaxCudaProcesses = 256;
inline constexpr std::uint32_t kBusyBuckets = 16;
inline constexpr std::uint64_t kBusyBucketNs = 100'000'000;
inline constexpr std::uint32_t kBootIdLength = 36;
inline constexpr const char* kCudaSuffix = ".cuda";  // Appended to the path of the world file.
inline constexpr const char* kCudaLibraryFile = "libcuda.so.1";

/// One process's use of one GPU.
struct CudaUse {
  std::uint64_t memory;    // Bytes that it allocated. `memory` and `residual` are under CudaFile::lock.
  std::uint64_t residual;  // Bytes of its contexts, their code and globals; 0: it has no context there.
  std::uint64_t busy_ns;   // Total GPU time that it has used. `busy_ns` and `wants` are under CudaGpu::lock.
  std::uint32_t wants;     // It has work for the GPU.
  std::uint32_t wake;      // Futex: changes when the process may have become the holder.
};

/// A checkpoint command to another process. The caller holds `lock`, fills in the command and increments `asked`. The
/// process answers and sets `answered` to the same number.
struct CudaOrder {
  pthread_mutex_t lock;
  std::uint32_t asked;     // Futex.
  std::uint32_t answered;  // Futex.
  std::uint32_t action;    // CudaAction
  std::int32_t result;     // cuda::Return
  std::uint32_t timeout_ms;
  std::uint32_t pair_count;  // 0: no map.
  std::uint8_t from[kMaxGpus];
  std::uint8_t to[kMaxGpus];
};
enum CudaAction : std::uint32_t { kLockProcess = 1, kSaveProcess = 2, kRestoreProcess = 3, kUnlockProcess = 4 };

struct CudaProcess {
  std::uint32_t pid;    // 0: the slot is free. Under CudaFile::lock.
  std::uint32_t state;  // cuda::ProcessState
  std::uint64_t start_ticks;
  std::uint32_t service_thread;
  std::uint32_t is_unmovable;  // It has managed memory or memory of other processes: cannot be checkpointed.
  std::uint32_t instance;      // Id of the MIG instance that it uses, plus one; 0: whole GPUs.
  std::uint32_t reserved;
  std::uint64_t saved;  // Bytes of device memory that a checkpoint has saved in host memory.
  CudaOrder order;
  CudaUse uses[kMaxGpus];
};

/// Faults that are switched on for a GPU; 0 is off.
struct CudaFaults {
  std::uint64_t out_of_memory_at;  // The number of the allocation that fails, from now on: 1 is the next.
  std::uint64_t copy_rate;         // Bytes per second.
  std::uint32_t sticky_error;      // The next launch fails with this error, which ends its context.
  std::uint32_t refuse_checkpoint;
  std::uint32_t refuse_restore;
  std::uint32_t reserved;
};

struct CudaGpu {
  pthread_mutex_t lock;
  std::uint32_t holder;       // The process that may use the GPU now, as slot + 1; 0: none.
  std::uint32_t turn;         // Incremented with each change of the holder.
  std::uint64_t used_ns;      // GPU time that the holder has used since it became the holder.
  std::uint64_t free_at_ns;   // When all started work is done. CLOCK_MONOTONIC, like `progress_ns`.
  std::uint64_t progress_ns;  // When the holder last showed that it is alive.
  std::uint64_t busy_ns;      // Total.
  struct {
    std::uint64_t number;  // Number of the time bucket: free_at_ns / kBusyBucketNs.
    std::uint64_t busy_ns;
  } buckets[kBusyBuckets];
  CudaFaults faults;
};

struct CudaFile {
  std::uint32_t magic;
  std::uint32_t layout;
  char boot_id[40];      // Locks and times of an earlier boot are void: the file is then recreated.
  pthread_mutex_t lock;  // Protects the slots and the memory counts.
  CudaGpu gpus[kMaxGpus];
  CudaProcess processes[kMaxCudaProcesses];
};

/// Takes a lock in the shared file, even if the process that held it has died.
inline void LockShared(pthread_mutex_t& lock) {
  if (pthread_mutex_lock(&lock) == EOWNERDEAD) pthread_mutex_consistent(&lock);
}
inline void UnlockShared(pthread_mutex_t& lock) { pthread_mutex_unlock(&lock); }

/// Returns the percentage of the second before `now_ns` in which the GPU was busy.
inline unsigned BusyPercent(const CudaGpu& gpu, std::uint64_t now_ns) {
  constexpr std::uint64_t kLooked = 10;
  const std::uint64_t current = now_ns / kBusyBucketNs;
  std::uint64_t busy = 0;
  for (const auto& bucket : gpu.buckets) {
    if (bucket.number < current && bucket.number + kLooked >= current) busy += bucket.busy_ns;
  }
  const std::uint64_t percent = busy * 100 / (kLooked * kBusyBucketNs);
  return percent > 100 ? 100U : static_cast<unsigned>(percent);
}

inline constexpr const char* kBootIdFile = "/proc/sys/kernel/random/boot_id";

/// True for a file of this layout that was created in the boot with this id (36 characters).
inline bool IsCurrentCudaFile(const CudaFile& file, const char* boot_id) {
  if (__atomic_load_n(&file.magic, __ATOMIC_ACQUIRE) != kCudaMagic || file.layout != kCudaLayout) return false;
  return __builtin_strncmp(file.boot_id, boot_id, kBootIdLength) == 0;
}

/// Initialises the locks of a zeroed file, and marks it with this layout and boot.
inline void InitialiseCudaFile(CudaFile& file, const char* boot_id) {
  __builtin_memcpy(file.boot_id, boot_id, kBootIdLength);
  pthread_mutexattr_t shared;
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&file.lock, &shared);
  for (CudaGpu& gpu : file.gpus) pthread_mutex_init(&gpu.lock, &shared);
  for (CudaProcess& process : file.processes) pthread_mutex_init(&process.order.lock, &shared);
  pthread_mutexattr_destroy(&shared);
  file.layout = kCudaLayout;
  __atomic_store_n(&file.magic, kCudaMagic, __ATOMIC_RELEASE);
}

}  // namespace divvy::emulation
