#include "engine/gpu_choice.h"

#include <gtest/gtest.h>

#include <string>

namespace divvy {
namespace gpu_choice_test {

/// `numa` GPUs per NUMA node, `nvlink` GPUs connected to each other.
GpuTopology Node(int gpus, int numa, int nvlink) {
  std::vector<GpuFacts> facts;
  for (int a = 0; a < gpus; ++a) {
    GpuFacts gpu;
    gpu.index = static_cast<GpuIndex>(a);
    gpu.numa_node = a / numa;
    for (int b = 0; b < gpus; ++b)
      gpu.links.push_back(a == b ? "X" : a / nvlink == b / nvlink ? "NV12" : a / numa == b / numa ? "PHB" : "SYS");
    facts.push_back(std::move(gpu));
  }
  return GpuTopology(facts);
}

std::vector<int> Picked(GpuSet candidates, int count, const GpuChoice& choice) {
  const auto picked = PickGpus(candidates, count, choice);
  return picked ? picked->ToVector() : std::vector<int>{-1};
}

using List = std::vector<int>;

TEST(GpuChoice, TooFewGpusGiveNoChoice) {
  EXPECT_EQ(Picked(GpuSet::Of({1, 2}), 3, {}), List{-1});
  EXPECT_EQ(Picked(GpuSet::Of({1, 2}), 0, {}), List());
}

TEST(GpuChoice, SpreadTakesFromTheNumaNodeWithTheMostFreeGpusFirst) {
  const GpuTopology node = Node(8, 4, 1);
  const GpuChoice spread = {PlacementStrategy::kSpread, 0, TopologyNeed::kAny, false, &node};
  EXPECT_EQ(Picked(GpuSet::Of({0, 4, 5}), 1, spread), List{4});
  EXPECT_EQ(Picked(GpuSet::Of({0, 4, 5}), 2, spread), (List{0, 4}));
  EXPECT_EQ(Picked(GpuSet::FirstN(8), 5, spread), (List{0, 1, 2, 4, 5}));
}

TEST(GpuChoice, APreferredTopologyTakesWhatIsFreeAndARequiredOneDoesNot) {
  const GpuTopology node = Node(8, 4, 2);
  GpuChoice choice = {PlacementStrategy::kSequential, 0, TopologyNeed::kNvlink, false, &node};
  EXPECT_EQ(Picked(GpuSet::Of({0, 3, 6, 7}), 2, choice), (List{6, 7}));
  EXPECT_EQ(Picked(GpuSet::Of({0, 2, 5}), 2, choice), (List{0, 2}));
  choice.requires_topology = true;
  EXPECT_EQ(Picked(GpuSet::Of({0, 2, 5}), 2, choice), List{-1});
  EXPECT_EQ(MostInOneDomain(GpuSet::Of({0, 2, 6, 7}), choice), 2);
  EXPECT_EQ(MostInOneDomain(GpuSet::Of({0, 2, 5}), choice), 1);
  EXPECT_FALSE(Suits(GpuSet::Of({0, 2}), choice));
  EXPECT_TRUE(Suits(GpuSet::Of({2, 3}), choice));
}

TEST(GpuChoice, NodesWithMoreThanSixteenGpusAreSearchedToo) {
  const GpuTopology node = Node(32, 16, 4);
  const GpuChoice choice = {PlacementStrategy::kSequential, 0, TopologyNeed::kNvlink, true, &node};
  EXPECT_EQ(Picked(GpuSet::Of({0, 1, 2, 5, 9, 13, 17, 21, 24, 25, 26, 27, 28, 29}), 4, choice), (List{24, 25, 26, 27}));
  EXPECT_EQ(Picked(GpuSet::Of({0, 1, 2, 5, 9, 13, 17, 21, 24, 25, 26}), 4, choice), List{-1});
}

TEST(GpuChoice, GrownSetsKeepTheGivenOrder) {
  const GpuTopology node = Node(8, 4, 2);
  const GpuChoice choice = {PlacementStrategy::kSequential, 0, TopologyNeed::kNuma, true, &node};
  const List order = {5, 0, 6, 1};
  const std::vector<std::vector<std::size_t>> want = {{0, 2}, {1, 3}, {0, 2}, {1, 3}};
  EXPECT_EQ(GrownSets(order, 2, choice), want);
}

}  // namespace gpu_choice_test
}  // namespace divvy
