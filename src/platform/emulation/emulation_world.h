// The emulated GPUs as one file that several processes map: the stand-in library reads it, EmulatedWorld changes it.
// Used on both sides of a C ABI, so it needs only <cstdint> and the compiler.
//
// A GPU's facts never change. Its state is stored twice: states[version & 1] is the live one. A writer takes an
// exclusive flock on the file, fills the other copy and then increments `version`. So a writer that is killed at any
// point leaves the last complete state, the kernel releases its lock, and a reader never waits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace divvy::emulation {

inline constexpr std::uint32_t kWorldMagic = 0x44565947;  // "GYVD" in the file.
inline constexpr std::uint32_t kWorldLayout = 2;          // Incremented with every change of a struct below.
inline constexpr std::uint32_t kMaxGpus = 64;
inline constexpr std::uint32_t kMaxProcesses = 64;  // Per GPU.
inline constexpr std::uint32_t kMaxInstances = 7;
inline constexpr std::uint32_t kMaxXids = 16;  // Kept for readers that are late.
inline constexpr const char* kWorldFile = "world";
inline constexpr const char* kLibraryFile = "libnvidia-ml.so.1";

struct WorldFacts {
  char uuid[96];
  char name[96];
  char pci[32];  // 00000000:17:00.0
  std::uint64_t memory_total;
  std::int32_t numa_node;           // -1: not known.
  std::int32_t compute_capability;  // 90 is 9.0; 0: not known.
  std::uint32_t is_mig_capable;
  std::uint32_t is_mig_enabled;    // At the start.
  std::uint32_t switch_links;      // NVLinks to the NVSwitches of `switch_domain`.
  std::uint32_t switch_domain;     // GPUs of one domain reach each other through its switches.
  std::uint8_t nvlinks[kMaxGpus];  // Direct NVLinks to each GPU.
  std::uint8_t levels[kMaxGpus];   // nvml::TopologyLevel to each GPU.
};

struct WorldProcess {
  std::uint64_t memory;  // Bytes.
  std::uint64_t start_ticks;
  std::uint32_t pid;
  std::uint32_t is_graphics;
};

/// A GPU instance of MIG, and the one compute instance in it.
struct WorldInstance {
  std::uint64_t memory;  // Bytes.
  std::uint32_t is_there;
  std::uint32_t id;
  std::uint32_t profile;  // Id of its profile.
  std::uint32_t start;    // Memory slices.
  std::uint32_t size;
  std::uint32_t compute;  // Compute slices.
  std::uint32_t has_compute;
  std::uint32_t reserved;
  char uuid[48];  // UUID of the MIG device that programs use.
};

struct WorldState {
  std::uint64_t other_memory;  // Bytes in use besides those of the processes.
  std::uint64_t xid_count;     // Total number; XID number n (from 0) is xids[n % kMaxXids].
  std::uint64_t uncorrected_errors;
  std::uint32_t utilisation_percent;
  std::uint32_t memory_utilisation_percent;
  std::uint32_t temperature_celsius;
  std::uint32_t power_milliwatts;
  std::uint32_t is_lost;
  std::uint32_t recovery_action;  // nvml::RecoveryAction
  std::uint32_t has_remap_failed;
  std::uint32_t process_count;
  std::uint32_t is_mig_on;
  std::uint32_t is_mig_pending;  // The MIG mode after a reset.
  std::uint64_t instances_made;  // Total number.
  WorldInstance instances[kMaxInstances];
  std::uint32_t xids[kMaxXids];
  WorldProcess processes[kMaxProcesses];
};

struct WorldGpu {
  WorldFacts facts;
  std::uint64_t version;
  WorldState states[2];
};

struct World {
  std::uint32_t magic;
  std::uint32_t layout;
  std::uint32_t gpu_count;
  std::int32_t cuda_version;  // 12040 is 12.4.
  char driver_version[80];
  char nvml_version[80];
  WorldGpu gpus[kMaxGpus];
};
static_assert(sizeof(WorldState) % sizeof(std::uint64_t) == 0 && alignof(WorldState) == alignof(std::uint64_t));

/// A state is copied word by word while another process may read it, whatever its members are.
typedef std::uint64_t __attribute__((__may_alias__)) Word;  // NOLINT: `using` loses the attribute.

/// Reads a complete state of `gpu`, as of some moment during the call. Retries only if a writer finished meanwhile.
inline void ReadState(const WorldGpu& gpu, WorldState& out) {
  for (;;) {
    const std::uint64_t version = __atomic_load_n(&gpu.version, __ATOMIC_ACQUIRE);
    const auto* from = reinterpret_cast<const Word*>(&gpu.states[version & 1]);
    auto* to = reinterpret_cast<char*>(&out);
    for (std::size_t i = 0; i < sizeof(WorldState) / sizeof(Word); ++i) {
      const Word word = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
      __builtin_memcpy(to + i * sizeof(Word), &word, sizeof(Word));
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&gpu.version, __ATOMIC_RELAXED) == version) return;
  }
}

/// Makes `state` the state that readers of the GPU see. Requires: the caller holds the lock on the file.
inline void PublishState(WorldGpu& gpu, const WorldState& state) {
  const std::uint64_t next = __atomic_load_n(&gpu.version, __ATOMIC_ACQUIRE) + 1;
  // No word of the spare copy may change before the previous version is visible.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  auto* to = reinterpret_cast<Word*>(&gpu.states[next & 1]);
  const auto* from = reinterpret_cast<const Word*>(&state);
  for (std::size_t i = 0; i < sizeof(WorldState) / sizeof(Word); ++i) {
    __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
  }
  __atomic_store_n(&gpu.version, next, __ATOMIC_RELEASE);
}

}  // namespace divvy::emulation
