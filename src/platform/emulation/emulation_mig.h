// MIG on emulated GPUs: the sizes of instances and their possible positions, from the vendor's tables for GPUs with
// seven compute and eight memory slices. Used on both sides of a C ABI, so it needs only <cstdint>.
#pragma once

#include <cstdint>

#include "platform/emulation/emulation_world.h"

namespace divvy::emulation {

/// One size of MIG instance.
struct MigSize {
  std::uint32_t profile;  // nvml::SliceConstant
  std::uint32_t id;       // The profile id with which instances are created.
  std::uint32_t compute;
  std::uint32_t size;      // Memory slices.
  std::uint32_t starts;    // Bit s is set: it may start at memory slice s.
  std::uint32_t first_id;  // The id of the first instance of this size; the next one has one more.
};
inline constexpr MigSize kMigSizes[] = {
    {0, 19, 1, 1, 0x7f, 7}, {9, 15, 1, 2, 0x55, 15}, {1, 14, 2, 2, 0x15, 3},
    {2, 9, 3, 4, 0x11, 1},  {3, 5, 4, 4, 0x01, 1},   {4, 0, 7, 8, 0x01, 0},
};
inline constexpr std::uint32_t kMigComputeSlices = 7;

/// Returns the memory in bytes of an instance with `size` memory slices; the GPU reserves some for itself.
inline std::uint64_t MigMemory(std::uint64_t gpu_memory, std::uint32_t size) {
  constexpr std::uint64_t kKept = std::uint64_t{160} << 20;
  constexpr std::uint64_t kGrain = std::uint64_t{64} << 20;
  const std::uint64_t part = gpu_memory / 8 * size;
  return part < 2 * kKept ? part : (part - kKept) / kGrain * kGrain;
}

/// Returns the number in the profile's name, such as 10 in "1g.10gb". Same rule as SliceName (model/gpus/gpu_slice.h).
inline std::uint32_t MigGigabytes(std::uint64_t gpu_memory, std::uint32_t size) {
  const std::uint64_t whole = (gpu_memory + (std::uint64_t{1} << 30) - 1) >> 30;
  return static_cast<std::uint32_t>((size * whole + 4) / 8);
}

/// Returns true if MIG can be emulated on this GPU. That needs seven compute slices and eight memory slices; GPUs with
/// another layout (A30) are not emulated.
inline bool HasMig(const WorldFacts& facts) {
  return facts.is_mig_capable != 0 && facts.memory_total > (std::uint64_t{30} << 30);
}

inline const MigSize* FindMigSize(std::uint32_t id) {
  for (const MigSize& size : kMigSizes) {
    if (size.id == id) return &size;
  }
  return nullptr;
}

/// Returns true if an instance of this size can begin at memory slice `start` without overlapping an existing instance.
inline bool HasMigRoom(const WorldState& state, const MigSize& size, std::uint32_t start) {
  if (start >= 8 || ((size.starts >> start) & 1) == 0) return false;
  std::uint32_t compute = size.compute;
  for (const WorldInstance& one : state.instances) {
    if (one.is_there == 0) continue;
    compute += one.compute;
    if (start < one.start + one.size && one.start < start + size.size) return false;
  }
  return compute <= kMigComputeSlices;
}

}  // namespace divvy::emulation
