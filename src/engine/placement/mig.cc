#include "engine/placement/mig.h"

#include <algorithm>
#include <array>

#include "base/result.h"

namespace divvy::placement {
namespace {

struct Geometry {
  int compute;
  int memory;
  std::uint8_t starts;  // Bit s: it may start at memory slice s.
};

constexpr std::array<Geometry, kMigProfiles> kGeometry = {{
    {1, 1, 0b0111'1111},
    {1, 2, 0b0101'0101},
    {2, 2, 0b0001'0101},
    {3, 4, 0b0001'0001},
    {4, 4, 0b0000'0001},
    {7, 8, 0b0000'0001},
}};

const Geometry& Of(MigProfile profile) { return kGeometry[static_cast<std::size_t>(profile)]; }

// Returns how many instances of each MIG profile still fit, larger profiles first.
std::array<int, kMigProfiles> RoomAfter(const MigCut& cut) {
  std::array<int, kMigProfiles> rooms{};
  for (int i = 0; i < kMigProfiles; ++i) {
    rooms[static_cast<std::size_t>(i)] = MigRoom(cut, static_cast<MigProfile>(kMigProfiles - 1 - i));
  }
  return rooms;
}

}  // namespace

std::uint8_t MigSlices(MigProfile profile, int start) {
  return static_cast<std::uint8_t>(((1u << Of(profile).memory) - 1) << start);
}

std::string_view MigProfileName(MigProfile profile) {
  constexpr std::array<std::string_view, kMigProfiles> kNames = {"1g", "1g-wide", "2g", "3g", "4g", "7g"};
  return kNames[static_cast<std::size_t>(profile)];
}

int ComputeSlices(MigProfile profile) { return Of(profile).compute; }
int MemorySlices(MigProfile profile) { return Of(profile).memory; }

std::optional<MigProfile> MigProfileOf(int compute_slices, int memory_slices) {
  for (int i = 0; i < kMigProfiles; ++i) {
    const auto profile = static_cast<MigProfile>(i);
    if (Of(profile).compute == compute_slices && Of(profile).memory == memory_slices) return profile;
  }
  return std::nullopt;
}

bool MigFitsAt(const MigCut& cut, MigProfile profile, int start) {
  if (start < 0 || start >= kMigMemorySlices || ((Of(profile).starts >> start) & 1) == 0) return false;
  return (cut.memory & MigSlices(profile, start)) == 0 && cut.compute + Of(profile).compute <= kMigComputeSlices;
}

bool MigFits(const MigCut& cut, MigProfile profile) {
  for (int start = 0; start < kMigMemorySlices; ++start) {
    if (MigFitsAt(cut, profile, start)) return true;
  }
  return false;
}

void MigTake(MigCut& cut, MigProfile profile, int start) {
  DIVVY_ASSERT(MigFitsAt(cut, profile, start));
  cut.memory = static_cast<std::uint8_t>(cut.memory | MigSlices(profile, start));
  cut.compute = static_cast<std::uint8_t>(cut.compute + Of(profile).compute);
}

void MigRelease(MigCut& cut, MigProfile profile, int start) {
  const std::uint8_t slices = MigSlices(profile, start);
  DIVVY_ASSERT((cut.memory & slices) == slices && cut.compute >= Of(profile).compute);
  cut.memory = static_cast<std::uint8_t>(cut.memory & ~slices);
  cut.compute = static_cast<std::uint8_t>(cut.compute - Of(profile).compute);
}

int MigRoom(const MigCut& cut, MigProfile profile) {
  // The starts of one profile are its size apart, or one slice, so taking the first that fits is optimal.
  MigCut left = cut;
  int room = 0;
  for (int start = 0; start < kMigMemorySlices; ++start) {
    if (!MigFitsAt(left, profile, start)) continue;
    MigTake(left, profile, start);
    ++room;
  }
  return room;
}

std::optional<int> ChooseMigStart(const MigCut& cut, MigProfile profile) {
  std::optional<int> best;
  std::array<int, kMigProfiles> best_rooms{};
  for (int start = 0; start < kMigMemorySlices; ++start) {
    if (!MigFitsAt(cut, profile, start)) continue;
    MigCut after = cut;
    MigTake(after, profile, start);
    const std::array<int, kMigProfiles> rooms = RoomAfter(after);
    if (best && rooms < best_rooms) continue;
    best = start;
    best_rooms = rooms;
  }
  return best;
}

}  // namespace divvy::placement
