#include "engine/gpu_sets.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <tuple>

namespace divvy {
namespace gpu_sets_test {

std::vector<GpuFacts> Node(
    int count, const std::function<std::string(int, int)>& link,
    const std::function<int(int)>& numa = [](int) { return 0; }) {
  std::vector<GpuFacts> gpus;
  for (int a = 0; a < count; ++a) {
    GpuFacts gpu;
    gpu.index = static_cast<GpuIndex>(a);
    gpu.numa_node = numa(a);
    for (int b = 0; b < count; ++b) gpu.links.push_back(a == b ? "X" : link(a, b));
    gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<GpuFacts> NvSwitch(int count) {
  return Node(count, [](int, int) { return "NV18"; });
}
/// Pairs connected by a bridge, everything else over PCIe; two sockets.
std::vector<GpuFacts> Bridges(int count) {
  return Node(
      count, [=](int a, int b) { return a / 2 == b / 2 ? "NV12" : (2 * a / count == 2 * b / count ? "NODE" : "SYS"); },
      [=](int a) { return 2 * a / count; });
}

GpuSet Pick(const GpuTopology& topology, const std::vector<int>& idle, int count,
            TopologyNeed need = TopologyNeed::kAny) {
  return topology.Pick(GpuSet::Of(idle), count, UsualSizeDemand(), need).value_or(GpuSet());
}

TEST(GpuSets, WithEqualLinksTheLowestIndicesAreChosen) {
  const GpuTopology topology(NvSwitch(8));
  EXPECT_TRUE(topology.is_uniform());
  EXPECT_EQ(Pick(topology, {0, 2, 3, 5, 7}, 3), GpuSet::Of({0, 2, 3}));
}

TEST(GpuSets, APairUsesANvlinkBridge) {
  const GpuTopology topology(Bridges(8));
  EXPECT_EQ(Pick(topology, {1, 2, 4, 5, 7}, 2), GpuSet::Of({4, 5}));
}

TEST(GpuSets, ASingleJobTakesAGpuWhosePartnerIsAllocated) {
  const GpuTopology topology(Bridges(8));
  EXPECT_EQ(Pick(topology, {0, 1, 2, 3, 5, 6, 7}, 1), GpuSet::Of({5}));
}

TEST(GpuSets, FourGpusStayOnOneSocket) {
  const GpuTopology topology(Bridges(8));
  EXPECT_EQ(Pick(topology, {0, 1, 4, 5, 6, 7}, 4), GpuSet::Of({4, 5, 6, 7}));
}

TEST(GpuSets, RequiredNvlinkIsRefusedIfNoSetHasIt) {
  const GpuTopology topology(Bridges(8));
  EXPECT_EQ(Pick(topology, {0, 1, 2, 3}, 2, TopologyNeed::kNvlink), GpuSet::Of({0, 1}));
  EXPECT_FALSE(topology.Pick(GpuSet::Of({0, 1, 2, 3}), 4, UsualSizeDemand(), TopologyNeed::kNvlink).has_value());
  EXPECT_FALSE(topology.Pick(GpuSet::Of({0, 2}), 2, UsualSizeDemand(), TopologyNeed::kNvlink).has_value());
}

TEST(GpuSets, RequiredNumaNodeIsKept) {
  const GpuTopology topology(Bridges(8));
  EXPECT_EQ(Pick(topology, {0, 1, 2, 4, 5, 6, 7}, 4, TopologyNeed::kNuma), GpuSet::Of({4, 5, 6, 7}));
  EXPECT_FALSE(topology.Pick(GpuSet::Of({0, 1, 4, 5}), 3, UsualSizeDemand(), TopologyNeed::kNuma).has_value());
}

TEST(GpuSets, UnknownLinksAreNoError) {
  std::vector<GpuFacts> gpus(4);
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<GpuIndex>(i);
  const GpuTopology topology(gpus);
  EXPECT_EQ(Pick(topology, {1, 2, 3}, 2), GpuSet::Of({1, 2}));
}

/// The criteria of the header, computed without tables.
struct Rank {
  int worst;
  int sum;
  int numa;
  std::uint64_t left;
};

std::uint64_t LeftValue(const GpuTopology& topology, GpuSet left, const SizeDemand& demand) {
  std::vector<int> best(static_cast<std::size_t>(left.size()) + 1);
  for (std::uint64_t sub = left.bits();; sub = (sub - 1) & left.bits()) {
    const GpuSet set = GpuSet::FromBits(sub);
    auto& b = best[static_cast<std::size_t>(set.size())];
    b = std::max(b, topology.WorstPair(set));
    if (sub == 0) break;
  }
  std::uint64_t value = 0;
  for (std::size_t n = 2; n < best.size(); ++n) value += std::uint64_t{demand[n]} * static_cast<std::uint64_t>(best[n]);
  return value;
}

TEST(GpuSets, AgreesWithABruteForceSearchOnRandomNodes) {
  std::mt19937 random(7);
  const std::vector<std::string> kinds = {"NV4", "NV2", "PIX", "PXB", "PHB", "NODE", "SYS"};
  for (int round = 0; round < 150; ++round) {
    const int size = 2 + static_cast<int>(random() % 6);
    std::vector<std::vector<std::string>> links(8, std::vector<std::string>(8));
    const auto kind_count = 1 + random() % kinds.size();
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = 0; b < a; ++b) links[a][b] = links[b][a] = kinds[random() % kind_count];
    }
    const GpuTopology topology(Node(
        size, [&](int a, int b) { return links[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]; },
        [&](int a) { return a * 2 / size; }));
    SizeDemand demand{};
    for (std::size_t n = 1; n <= 8; ++n) demand[n] = static_cast<std::uint32_t>(random() % 5);
    const auto idle = GpuSet::FromBits(random() % (std::uint64_t{1} << size));
    for (int count = 1; count <= idle.size(); ++count) {
      for (const auto need : {TopologyNeed::kAny, TopologyNeed::kNuma, TopologyNeed::kNvlink}) {
        std::optional<std::tuple<int, int, int, std::uint64_t>> best;
        for (std::uint64_t sub = idle.bits(); sub != 0; sub = (sub - 1) & idle.bits()) {
          const GpuSet set = GpuSet::FromBits(sub);
          if (set.size() != count || !topology.Satisfies(set, need)) continue;
          const std::uint64_t left = topology.is_uniform() ? 0 : LeftValue(topology, idle - set, demand);
          const std::tuple rank(topology.WorstPair(set), topology.SumOfPairs(set), -topology.NumaNodes(set), left);
          if (!best || *best < rank) best = rank;
        }
        const auto picked = topology.Pick(idle, count, demand, need);
        ASSERT_EQ(picked.has_value(), best.has_value()) << "round " << round << " count " << count;
        if (!picked) continue;
        ASSERT_EQ(picked->size(), count);
        ASSERT_TRUE((*picked - idle).empty());
        const std::uint64_t left = topology.is_uniform() ? 0 : LeftValue(topology, idle - *picked, demand);
        const std::tuple rank(topology.WorstPair(*picked), topology.SumOfPairs(*picked), -topology.NumaNodes(*picked),
                              left);
        ASSERT_EQ(rank, *best) << "round " << round << " idle " << idle.bits() << " count " << count;
      }
    }
  }
}

TEST(GpuSets, ALargeNodeIsSearchedFromEveryGpu) {
  const GpuTopology topology(Bridges(64));
  const GpuSet all = GpuSet::FirstN(64);
  EXPECT_EQ(topology.Pick(all, 2, UsualSizeDemand()), GpuSet::FirstN(2));
  EXPECT_EQ(topology.Pick(all, 20, UsualSizeDemand())->size(), 20);
  EXPECT_EQ(topology.Pick(all, 64, UsualSizeDemand()), all);
  // Only the last of the pairs is complete.
  GpuSet odd = GpuSet::Of({62, 63});
  for (int gpu = 1; gpu < 62; gpu += 2) odd.Insert(gpu);
  EXPECT_EQ(topology.Pick(odd, 2, UsualSizeDemand(), TopologyNeed::kNvlink), GpuSet::Of({62, 63}));
  EXPECT_EQ(topology.Pick(odd, 3, UsualSizeDemand(), TopologyNeed::kNvlink), std::nullopt);
}

// Eight islands of eight GPUs connected by NVLink, each on a NUMA node of its own.
TEST(GpuSets, ALargeNodeGivesAWholeNvlinkIsland) {
  const GpuTopology topology(Node(
      64, [](int a, int b) { return std::string(a / 8 == b / 8 ? "NV18" : "SYS"); }, [](int a) { return a / 8; }));
  const GpuSet busy = GpuSet::Of({1, 9, 17, 25, 33, 49, 57});
  const GpuSet island = GpuSet::FirstN(48) - GpuSet::FirstN(40);
  for (const auto need : {TopologyNeed::kAny, TopologyNeed::kNuma, TopologyNeed::kNvlink}) {
    EXPECT_EQ(topology.Pick(GpuSet::FirstN(64) - busy, 8, UsualSizeDemand(), need), island);
  }
  EXPECT_EQ(topology.Pick(GpuSet::FirstN(64) - busy, 9, UsualSizeDemand(), TopologyNeed::kNvlink), std::nullopt);
}

}  // namespace gpu_sets_test
}  // namespace divvy
