// MIG instances: the sizes that a GPU can be divided into, and the instance that a job has. docs/sharing.md.
//
// A GPU has eight memory slices and seven compute slices. An instance has some of each. It starts at one of the memory
// slices that its size allows (engine/placement/mig.h).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace divvy {

/// How divvy uses MIG on a node.
enum class MigUse {
  kOff,   // Not at all: GPUs in MIG mode accept no work.
  kUse,   // Creates instances on GPUs that are in MIG mode.
  kAuto,  // Also switches the mode of idle GPUs: on for a slice, off after the last one.
};

/// A size of instance.
struct SliceProfile {
  std::string name;  // The name in the driver's tools: "1g.18gb".
  int compute = 0;   // Number of compute slices.
  int size = 0;      // Number of memory slices.
  Bytes memory;      // The memory that a program sees in it.

  friend bool operator==(const SliceProfile&, const SliceProfile&) = default;
};

/// A job's instance on one GPU. If `profile` is empty, there is none.
struct GpuSlice {
  std::string profile;
  int compute = 0;
  int size = 0;
  int start = 0;  // Its first memory slice.

  bool any() const { return !profile.empty(); }
  friend bool operator==(const GpuSlice&, const GpuSlice&) = default;
};

/// "1g.18gb": the driver tools' name for an instance with these compute slices and this memory. NVIDIA's own libraries
/// use the same rule: eighths of the GPU's memory, rounded up, times an eighth of the GPU's size in GiB.
std::string SliceName(int compute, Bytes memory, Bytes gpu_memory);

/// The usual profiles of a GPU of this size with seven compute slices, smallest first. Used if the driver does not
/// report them, because the MIG mode is off.
std::vector<SliceProfile> UsualSlices(Bytes gpu_memory);

/// Whether `slice` requests an amount of memory (">=16G") instead of a profile.
inline bool IsByMemory(std::string_view slice) { return slice.starts_with(">="); }
/// The memory that `slice` requests. Requires: IsByMemory(slice). Returns zero if it cannot be parsed; a job with such
/// a request was refused earlier.
Bytes SliceMemory(std::string_view slice);
/// Whether an instance of this size satisfies the request `slice` (Request::slice). A request names a profile
/// ("1g.18gb"), a number of compute slices on any GPU ("1g"; "1g-wide" has twice the memory), or an amount of memory.
bool IsSuchSlice(const SliceProfile& profile, std::string_view slice);

}  // namespace divvy
