// How a GPU can be divided into MIG instances. A GPU has eight memory slices and seven compute slices. An instance can
// start only at certain memory slices, so the order of placement matters: a small instance at the wrong slice blocks a
// large one although there is enough room in total.
//
// Source of the valid starts: NVIDIA's Multi-Instance GPU user guide; A100, H100 and H200 share them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace divvy::placement {

inline constexpr int kMigMemorySlices = 8;
inline constexpr int kMigComputeSlices = 7;

/// Named by compute slices; k1gWide has the memory of two slices. Larger profiles come later.
enum class MigProfile : std::uint8_t { k1g, k1gWide, k2g, k3g, k4g, k7g };
inline constexpr int kMigProfiles = 6;

int ComputeSlices(MigProfile profile);
int MemorySlices(MigProfile profile);

/// Returns the name of a MIG profile without its memory size, which depends on the GPU: "1g", "1g-wide", "2g" ...
std::string_view MigProfileName(MigProfile profile);

/// Returns the MIG profile with these numbers of compute and memory slices; nullopt if there is none.
std::optional<MigProfile> MigProfileOf(int compute_slices, int memory_slices);

/// The slices in use on one GPU. Bit s of `memory`: memory slice s is in use.
struct MigCut {
  std::uint8_t memory = 0;
  std::uint8_t compute = 0;
  friend bool operator==(const MigCut&, const MigCut&) = default;
};

/// A GPU with no slice left.
inline constexpr MigCut kFullCut{0xff, kMigComputeSlices};

/// Returns the memory slices that an instance of `profile` occupies if it starts at slice `start`, as bits: bit s
/// stands for slice s.
std::uint8_t MigSlices(MigProfile profile, int start);

bool MigFitsAt(const MigCut& cut, MigProfile profile, int start);
/// Returns true if an instance of the profile fits on the GPU, at any start.
bool MigFits(const MigCut& cut, MigProfile profile);
/// Marks the slices of a new instance as used. Requires: the instance fits at this start (MigFitsAt).
void MigTake(MigCut& cut, MigProfile profile, int start);
/// Marks the slices of an instance as free again, which MigTake has marked as used.
void MigRelease(MigCut& cut, MigProfile profile, int start);

/// Returns how many more instances fit if all of them are of this profile.
int MigRoom(const MigCut& cut, MigProfile profile);

/// Returns the slice at which a new instance of `profile` starts. The start is chosen so that it leaves room for the
/// most instances of the largest profile, then of the next, and so on; of equally good ones the last, because the
/// largest profiles fit only at the front. nullopt if the instance does not fit.
std::optional<int> ChooseMigStart(const MigCut& cut, MigProfile profile);

}  // namespace divvy::placement
