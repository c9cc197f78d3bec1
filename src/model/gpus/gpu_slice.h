// MIG instances: a size of them that a GPU can be cut into, and one that a job has. docs/sharing.md.
//
// A GPU has eight memory slices and seven compute slices; an instance has some of each, and starts at one of the memory
// slices that its size allows (engine/placement/mig.h).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace divvy {

/// What divvy does with MIG on a machine.
enum class MigUse {
  kOff,   // Nothing: GPUs in MIG mode take no work.
  kUse,   // Makes instances on GPUs that are in MIG mode.
  kAuto,  // Switches the mode of idle GPUs as well: on for a slice, off again after the last one.
};

/// A size of instance.
struct SliceProfile {
  std::string name;  // As the driver's tools call it: "1g.18gb".
  int compute = 0;   // Compute slices,
  int size = 0;      // and memory slices.
  Bytes memory;      // What a program finds in it.

  friend bool operator==(const SliceProfile&, const SliceProfile&) = default;
};

/// An instance of a job on one GPU. None where `profile` is empty.
struct GpuSlice {
  std::string profile;
  int compute = 0;
  int size = 0;
  int start = 0;  // Its first memory slice.

  bool any() const { return !profile.empty(); }
  friend bool operator==(const GpuSlice&, const GpuSlice&) = default;
};

/// "1g.18gb": how the driver's tools call an instance of so many compute slices and so much memory of a GPU. By the
/// rule of NVIDIA's own libraries: eighths of the GPU's memory, rounded up, in GiB of the GPU rounded up.
std::string SliceName(int compute, Bytes memory, Bytes gpu_memory);

/// What a GPU of this size with seven compute slices is as a rule divided into, smallest first: where the driver does
/// not tell, since its MIG mode is off.
std::vector<SliceProfile> UsualSlices(Bytes gpu_memory);

/// ">=16G" and its like ask for memory and not for a size; nothing else begins so.
inline bool IsByMemory(std::string_view slice) { return slice.starts_with(">="); }
/// Of what IsByMemory holds for: how much. Zero where it does not read: such a request was refused.
Bytes SliceMemory(std::string_view slice);
/// Whether an instance of this size is what `slice` (Request::slice) asks for: by name ("1g.18gb"), by compute slices
/// on whatever GPU ("1g"; "1g-wide" has twice the memory), or has the memory that it asks for.
bool IsSuchSlice(const SliceProfile& profile, std::string_view slice);

}  // namespace divvy
