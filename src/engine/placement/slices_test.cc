// MIG instances and GPU memory beside shares and whole GPUs, on one node.
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "engine/placement/shape.h"
#include "engine/placement/test_random.h"

namespace divvy::placement {
namespace slices_test {

using enum MigProfile;

NodeState MakeSliceable(int gpus, std::int32_t gpu_memory_mib = kPlentyMib) {
  NodeState node = MakeNode(64'000, 65'536, gpus, 0);
  node.sliceable = static_cast<std::uint16_t>((1u << gpus) - 1);
  for (std::size_t gpu = 0; gpu < node.gpus; ++gpu) node.gpu_memory_free[gpu] = gpu_memory_mib;
  return node;
}

GpuMask Cut(NodeState& node, MigProfile profile) {
  const GpuMask place = ChooseSlice(node, profile);
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

TEST(Slices, ACutGpuServesInstancesAlone) {
  NodeState node = MakeSliceable(2);
  const GpuMask place = Cut(node, k1g);
  EXPECT_EQ(GpusOf(place), 0b01u);
  EXPECT_EQ(node.whole, 1);
  EXPECT_EQ(node.gpu_free, kGpuParts);
  EXPECT_FALSE(Fits(node, Share(kGpuParts, 0, 2)));
  EXPECT_FALSE(FitsOn(node, Share(1000), 0b01));
  EXPECT_TRUE(FitsOn(node, Share(1000), 0b10));
  Release(node, SliceShape(k1g), place);
  EXPECT_EQ(node.whole, 2);
  EXPECT_TRUE(Fits(node, Share(kGpuParts, 0, 2)));
}

TEST(Slices, AGpuInUseOtherwiseIsNotCut) {
  NodeState node = MakeSliceable(1);
  Take(node, Share(1000), 0b1);
  EXPECT_FALSE(Fits(node, SliceShape(k1g)));
}

TEST(Slices, AGpuThatCannotBeCutIsNot) {
  NodeState node = MakeSliceable(2);
  node.sliceable = 0b10;
  EXPECT_EQ(GpusOf(Cut(node, k7g)), 0b10u);
  EXPECT_FALSE(Fits(node, SliceShape(k1g)));
}

TEST(Slices, SmallOnesShareAGpuAndLeaveRoomForALargeOne) {
  NodeState node = MakeSliceable(2);
  EXPECT_EQ(GpusOf(Cut(node, k1g)), 0b01u);
  EXPECT_EQ(GpusOf(Cut(node, k1g)), 0b01u);
  EXPECT_EQ(GpusOf(Cut(node, k1g)), 0b01u);
  EXPECT_EQ(GpusOf(Cut(node, k4g)), 0b01u) << "what was cut before lies so that a 4g still fits";
  EXPECT_EQ(GpusOf(Cut(node, k7g)), 0b10u);
}

TEST(Slices, WhatWasGivenOverToInstancesIsCutFirst) {
  NodeState node = MakeSliceable(4);
  node.carved = 0b0100;
  EXPECT_EQ(GpusOf(Cut(node, k1g)), 0b0100u);
  EXPECT_EQ(node.carved, 0b0100);
  Cut(node, k7g);
  EXPECT_EQ(node.carved, 0b0101);
  Take(node, Share(kGpuParts), 0b1000);
  EXPECT_EQ(node.carved, 0b0101);
}

TEST(Slices, AWholeGpuMergesWhatWasCarved) {
  NodeState node = MakeSliceable(1);
  const GpuMask place = Cut(node, k1g);
  Release(node, SliceShape(k1g), place);
  EXPECT_EQ(node.carved, 0b1) << "until somebody needs it otherwise";
  Take(node, Share(kGpuParts), 0b1);
  EXPECT_EQ(node.carved, 0);
}

TEST(Slices, TheyCountAsTheirShareOfMemory) {
  int sum = 0;
  for (const MigProfile profile : {k4g, k2g, k1g}) sum += SliceShape(profile).parts;
  EXPECT_EQ(sum, 7 * kGpuParts / 8);
  EXPECT_EQ(SliceShape(k7g).parts, kGpuParts);
  EXPECT_FALSE(SliceShape(k7g).is_whole());
}

TEST(GpuMemory, IsSetApartBesideCompute) {
  NodeState node = MakeSliceable(2, 80);
  Take(node, Share(2500, 60), 0b01);
  EXPECT_FALSE(FitsOn(node, Share(2500, 40), 0b01)) << "compute is left, memory is not";
  EXPECT_EQ(TightestGpus(node, Share(2500, 40)), 0b10u);
  EXPECT_EQ(TightestGpus(node, Share(2500, 20)), 0b01u);
  EXPECT_FALSE(Fits(node, Share(2500, 81)));
  EXPECT_FALSE(Fits(node, Share(1000, 40, 2)));
  EXPECT_TRUE(Fits(node, Share(1000, 20, 2)));
}

TEST(Overlapping, IsAboutTheSameSlicesOfTheSameGpu) {
  const GpuMask low = 0b01u | (0b0001u << kMaxGpus);
  const GpuMask high = 0b01u | (0b1110u << kMaxGpus);
  const GpuMask other = 0b10u | (0b0001u << kMaxGpus);
  EXPECT_TRUE(Overlap(low, low));
  EXPECT_FALSE(Overlap(low, high));
  EXPECT_FALSE(Overlap(low, other));
  EXPECT_TRUE(Overlap(low, 0b11u)) << "a whole GPU has all its slices";
}

// Takes and releases in any order leave what the pieces that are there leave, and no two have anything in common.
TEST(Slices, AreExactWhateverComesAndGoes) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    TestRandom random(seed);
    NodeState node = MakeSliceable(1 + random.Below(3), 80);
    const NodeState empty = node;
    std::vector<std::pair<Shape, GpuMask>> pieces;
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
        const GpuMask place = TightestGpus(node, shape);
        ASSERT_TRUE(FitsOn(node, shape, place));
        const std::uint16_t carved = node.carved;
        Take(node, shape, place);
        if (shape.slice) {
          EXPECT_EQ(std::popcount(SlicesOf(place)), MemorySlices(*shape.slice));
          EXPECT_EQ(node.carved, carved | GpusOf(place));
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

// No other place would keep an instance of a larger profile possible that this one makes impossible.
TEST(Slices, KeepTheLargestPossibleThatAnyPlaceWould) {
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
        if (!MigFitsAt(node.cuts[0], profile, start)) continue;
        NodeState other = node;
        Take(other, shape, 0b1u | (GpuMask{MigSlices(profile, start)} << kMaxGpus));
        best = std::max(best, largest(other));
      }
      Cut(node, profile);
      EXPECT_EQ(largest(node), best) << "seed " << seed;
    }
  }
}

}  // namespace slices_test
}  // namespace divvy::placement
