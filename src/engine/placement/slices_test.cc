// MIG instances and GPU memory next to shares and whole GPUs, on one node.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "engine/placement/shape.h"
#include "engine/placement/test_random.h"

namespace divvy::placement {
namespace slices_test {

using enum MigProfile;

NodeState MakeSliceable(int gpus, std::int32_t gpu_memory_mib = kPlentyMib) {
  NodeState node = MakeNode(64'000, 65'536, gpus, 0);
  node.sliceable = GpuSet::FirstN(gpus);
  for (GpuRoom& room : node.rooms()) room.memory_free = gpu_memory_mib;
  return node;
}

GpuPlace Cut(NodeState& node, MigProfile profile) {
  const GpuPlace place = ChooseSlice(node, profile);
  Take(node, SliceShape(profile), place);
  return place;
}

Shape Share(int parts, std::int32_t gpu_memory_mib = 0, int gpus = 1) {
  Shape shape;
  shape.gpus = static_cast<std::int16_t>(gpus);
  shape.parts = static_cast<std::int16_t>(parts);
  shape.gpu_memory_mib = gpu_memory_mib;
  return shape;
}

TEST(Slices, ACutGpuServesInstancesOnly) {
  NodeState node = MakeSliceable(2);
  const GpuPlace place = Cut(node, k1g);
  EXPECT_EQ(place.gpus.bits(), 0b01u);
  EXPECT_EQ(node.whole, 1);
  EXPECT_EQ(node.gpu_free, kGpuParts);
  EXPECT_FALSE(Fits(node, Share(kGpuParts, 0, 2)));
  EXPECT_FALSE(FitsOn(node, Share(1000), AtGpus(0b01)));
  EXPECT_TRUE(FitsOn(node, Share(1000), AtGpus(0b10)));
  Release(node, SliceShape(k1g), place);
  EXPECT_EQ(node.whole, 2);
  EXPECT_TRUE(Fits(node, Share(kGpuParts, 0, 2)));
}

TEST(Slices, AGpuInOtherUseIsNotCut) {
  NodeState node = MakeSliceable(1);
  Take(node, Share(1000), AtGpus(0b1));
  EXPECT_FALSE(Fits(node, SliceShape(k1g)));
}

TEST(Slices, AGpuWithoutMigIsNotCut) {
  NodeState node = MakeSliceable(2);
  node.sliceable = GpuSet::Only(1);
  EXPECT_EQ(Cut(node, k7g).gpus.bits(), 0b10u);
  EXPECT_FALSE(Fits(node, SliceShape(k1g)));
}

TEST(Slices, SmallSlicesShareAGpuAndLeaveRoomForALargeOne) {
  NodeState node = MakeSliceable(2);
  EXPECT_EQ(Cut(node, k1g).gpus.bits(), 0b01u);
  EXPECT_EQ(Cut(node, k1g).gpus.bits(), 0b01u);
  EXPECT_EQ(Cut(node, k1g).gpus.bits(), 0b01u);
  EXPECT_EQ(Cut(node, k4g).gpus.bits(), 0b01u) << "what was cut before lies so that a 4g still fits";
  EXPECT_EQ(Cut(node, k7g).gpus.bits(), 0b10u);
}

TEST(Slices, AGpuAlreadyInMigModeIsCutFirst) {
  NodeState node = MakeSliceable(4);
  node.carved = GpuSet::Only(2);
  EXPECT_EQ(Cut(node, k1g).gpus.bits(), 0b0100u);
  EXPECT_EQ(node.carved.bits(), 0b0100u);
  Cut(node, k7g);
  EXPECT_EQ(node.carved.bits(), 0b0101u);
  Take(node, Share(kGpuParts), AtGpus(0b1000));
  EXPECT_EQ(node.carved.bits(), 0b0101u);
}

TEST(Slices, AWholeGpuRequestMergesACutGpu) {
  NodeState node = MakeSliceable(1);
  const GpuPlace place = Cut(node, k1g);
  Release(node, SliceShape(k1g), place);
  EXPECT_EQ(node.carved.bits(), 0b1u) << "until somebody needs it otherwise";
  Take(node, Share(kGpuParts), AtGpus(0b1));
  EXPECT_TRUE(node.carved.empty());
}

TEST(Slices, SlicesCountAsTheirShareOfMemory) {
  int sum = 0;
  for (const MigProfile profile : {k4g, k2g, k1g}) sum += SliceShape(profile).parts;
  EXPECT_EQ(sum, 7 * kGpuParts / 8);
  EXPECT_EQ(SliceShape(k7g).parts, kGpuParts);
  EXPECT_FALSE(SliceShape(k7g).is_whole());
}

TEST(GpuMemory, IsCountedSeparatelyFromCompute) {
  NodeState node = MakeSliceable(2, 80);
  Take(node, Share(2500, 60), AtGpus(0b01));
  EXPECT_FALSE(FitsOn(node, Share(2500, 40), AtGpus(0b01))) << "compute is left, memory is not";
  EXPECT_EQ(TightestGpus(node, Share(2500, 40)), AtGpus(0b10));
  EXPECT_EQ(TightestGpus(node, Share(2500, 20)), AtGpus(0b01));
  EXPECT_FALSE(Fits(node, Share(2500, 81)));
  EXPECT_FALSE(Fits(node, Share(1000, 40, 2)));
  EXPECT_TRUE(Fits(node, Share(1000, 20, 2)));
}

TEST(Overlapping, ComparesSlicesOfTheSameGpu) {
  const GpuPlace low = AtGpus(0b01, 0b0001);
  const GpuPlace high = AtGpus(0b01, 0b1110);
  const GpuPlace other = AtGpus(0b10, 0b0001);
  EXPECT_TRUE(Overlap(low, low));
  EXPECT_FALSE(Overlap(low, high));
  EXPECT_FALSE(Overlap(low, other));
  EXPECT_TRUE(Overlap(low, AtGpus(0b11))) << "a whole GPU has all its slices";
}

TEST(Slices, AreUsableOnTheLastGpuOfALargeNode) {
  NodeState node = MakeSliceable(64, 80);
  Take(node, Share(kGpuParts, 0, 63), {GpuSet::FirstN(63)});
  EXPECT_EQ(Cut(node, k3g), AtGpus(std::uint64_t{1} << 63, 0b1111'0000));
  EXPECT_EQ(Cut(node, k4g), AtGpus(std::uint64_t{1} << 63, 0b0000'1111));
  EXPECT_EQ(node.carved, GpuSet::Only(63));
  EXPECT_FALSE(Fits(node, SliceShape(k1g)));
  Release(node, Share(kGpuParts, 0, 63), {GpuSet::FirstN(63)});
  EXPECT_EQ(node.whole, 63);
  EXPECT_EQ(Cut(node, k1g), AtGpus(1, 0b0100'0000));
}

// Random allocations and releases: the free room is what the present pieces leave, and no two pieces overlap.
TEST(Slices, StayExactAfterRandomAllocationsAndReleases) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    TestRandom random(seed);
    NodeState node = MakeSliceable(std::array{1, 2, 3, 9, 64}[seed % 5], 80);
    Block(node, GpuSet::FirstN(std::max(0, node.gpus - 3)));  // Only the last GPUs are available.
    const NodeState empty = node;
    std::vector<std::pair<Shape, GpuPlace>> pieces;
    for (int step = 0; step < 120; ++step) {
      if (!pieces.empty() && random.Below(3) == 0) {
        const auto at = pieces.begin() + random.Below(static_cast<int>(pieces.size()));
        Release(node, at->first, at->second);
        pieces.erase(at);
      } else {
        const int kind = random.Below(3);
        const Shape shape = kind == 0   ? SliceShape(static_cast<MigProfile>(random.Below(kMigProfiles)))
                            : kind == 1 ? Share(1000 * (1 + random.Below(9)), 10 * random.Below(9))
                                        : Share(kGpuParts);
        if (!Fits(node, shape)) continue;
        const GpuPlace place = TightestGpus(node, shape);
        ASSERT_TRUE(FitsOn(node, shape, place));
        const GpuSet carved = node.carved;
        Take(node, shape, place);
        if (shape.slice) {
          EXPECT_EQ(std::popcount(place.slices), MemorySlices(*shape.slice));
          EXPECT_EQ(node.carved, carved | place.gpus);
        }
        pieces.emplace_back(shape, place);
      }
      NodeState again = empty;
      for (const auto& [shape, place] : pieces) {
        ASSERT_TRUE(FitsOn(again, shape, place)) << "seed " << seed << ", step " << step;
        Take(again, shape, place);
      }
      again.carved = node.carved;
      ASSERT_EQ(again, node) << "seed " << seed << ", step " << step;
    }
  }
}

// No other place would keep a larger profile possible that this one makes impossible.
TEST(Slices, EachPlacementKeepsTheLargestPossibleProfile) {
  const auto largest = [](const NodeState& node) {
    for (int i = kMigProfiles - 1; i >= 0; --i) {
      if (Fits(node, SliceShape(static_cast<MigProfile>(i)))) return i;
    }
    return -1;
  };
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    TestRandom random(seed);
    NodeState node = MakeSliceable(1);
    while (true) {
      const auto profile = static_cast<MigProfile>(random.Below(4));
      const Shape shape = SliceShape(profile);
      if (!Fits(node, shape)) break;
      int best = -1;
      for (int start = 0; start < kMigMemorySlices; ++start) {
        if (!MigFitsAt(node.rooms()[0].cut, profile, start)) continue;
        NodeState other = node;
        Take(other, shape, AtGpus(1, MigSlices(profile, start)));
        best = std::max(best, largest(other));
      }
      Cut(node, profile);
      EXPECT_EQ(largest(node), best) << "seed " << seed;
    }
  }
}

}  // namespace slices_test
}  // namespace divvy::placement
