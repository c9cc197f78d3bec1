#include "keeper/tenants/residual.h"

#include <gtest/gtest.h>

namespace divvy::keeper {
namespace residual_test {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

TEST(Residual, IsKnownAfterTwoSamplesOfAQuietProcess) {
  ResidualSights sights;
  EXPECT_EQ(sights.Follow(512 * kMib, 364 * kMib, 64 * kMib), 512 * kMib);
  EXPECT_EQ(sights.Follow(512 * kMib, 364 * kMib, 64 * kMib), 364 * kMib);
  EXPECT_EQ(sights.Follow(364 * kMib, 364 * kMib, 64 * kMib), 300 * kMib);
  EXPECT_EQ(sights.least(), 300 * kMib);
}

TEST(Residual, IsUnchangedWhileAProcessAllocatesFasterThanItIsSampled) {
  ResidualSights sights;
  std::uint64_t residual = 512 * kMib;
  // Each driver count is older than the process's own count.
  residual = sights.Follow(residual, 300 * kMib, 4 * kGib);
  residual = sights.Follow(residual, 4 * kGib + 518 * kMib, 12 * kGib);
  residual = sights.Follow(residual, 12 * kGib + 518 * kMib, 19 * kGib);
  EXPECT_EQ(residual, 512 * kMib);
  residual = sights.Follow(residual, 19 * kGib + 518 * kMib, 19 * kGib);
  residual = sights.Follow(residual, 19 * kGib + 518 * kMib, 19 * kGib);
  EXPECT_EQ(residual, 518 * kMib);
}

TEST(Residual, MemoryFreedBetweenTwoReadingsIsNotCounted) {
  ResidualSights sights;
  std::uint64_t residual = sights.Follow(512 * kMib, 512 * kMib, 0);
  residual = sights.Follow(residual, 10 * kGib + 512 * kMib, 0);  // Allocated and freed since the last sample.
  EXPECT_EQ(residual, 512 * kMib);
  residual = sights.Follow(residual, 512 * kMib, 0);
  EXPECT_EQ(residual, 512 * kMib);
}

TEST(Residual, MemoryAllocatedOutsideTheLibraryCountsFromTheSecondSample) {
  ResidualSights sights;
  std::uint64_t residual = sights.Follow(512 * kMib, 512 * kMib, 0);
  residual = sights.Follow(residual, 9 * kGib, 0);
  EXPECT_EQ(residual, 512 * kMib);
  residual = sights.Follow(residual, 9 * kGib, 0);
  EXPECT_EQ(residual, 9 * kGib);
  EXPECT_EQ(sights.least(), 9 * kGib);
}

}  // namespace residual_test
}  // namespace divvy::keeper
