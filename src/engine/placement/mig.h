// How a GPU can be cut into MIG instances. A GPU has eight memory slices and seven compute slices; an instance of a
// profile starts only at certain memory slices, which is why the order of cutting matters: a small one at the wrong
// place makes a large one impossible though there is room.
//
// Source of the legal starts: NVIDIA's Multi-Instance GPU user guide; A100, H100 and H200 share them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace divvy::placement {

inline constexpr int kMigMemorySlices = 8;
inline constexpr int kMigComputeSlices = 7;

/// Named by compute slices; k1gWide has the memory of two slices. Larger ones come later.
enum class MigProfile : std::uint8_t { k1g, k1gWide, k2g, k3g, k4g, k7g };
inline constexpr int kMigProfiles = 6;

int ComputeSlices(MigProfile profile);
int MemorySlices(MigProfile profile);

/// "1g", "1g-wide", "2g" ...: without the memory, which depends on the GPU.
std::string_view MigProfileName(MigProfile profile);

/// "2g.10gb" on a GPU of 40 GB, "2g.20gb" on one of 80. Nothing where the GPU has no such profile.
std::optional<MigProfile> MigProfileFromName(std::string_view name, int gpu_memory_gb);
/// That of so many compute and memory slices. Nothing where there is none.
std::optional<MigProfile> MigProfileOf(int compute_slices, int memory_slices);

/// What is cut out of one GPU. Bit s of `memory`: memory slice s is taken.
struct MigCut {
  std::uint8_t memory = 0;
  std::uint8_t compute = 0;
  friend bool operator==(const MigCut&, const MigCut&) = default;
};

/// Nothing more fits.
inline constexpr MigCut kFullCut{0xff, kMigComputeSlices};

/// The memory slices of an instance that starts there; bit s: slice s.
std::uint8_t MigSlices(MigProfile profile, int start);

bool MigFitsAt(const MigCut& cut, MigProfile profile, int start);
/// Anywhere.
bool MigFits(const MigCut& cut, MigProfile profile);
/// Requires: MigFitsAt.
void MigTake(MigCut& cut, MigProfile profile, int start);
/// Undoes MigTake.
void MigRelease(MigCut& cut, MigProfile profile, int start);

/// How many instances of `profile` could still be cut, nothing else.
int MigRoom(const MigCut& cut, MigProfile profile);

/// Where to cut: the start that leaves room for most instances of the largest profile, then of the next, and so on; of
/// equals the last, so that the front, where alone the largest fit, stays whole. Nothing where it does not fit.
std::optional<int> ChooseMigStart(const MigCut& cut, MigProfile profile);

/// Starts for all of them at once, in their order; nothing where no arrangement holds them all. Exact.
std::optional<std::vector<int>> ArrangeMig(const MigCut& cut, std::span<const MigProfile> profiles);

}  // namespace divvy::placement
