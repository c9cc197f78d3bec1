// Compares the fleet with the direct way: rate every node for every request by the definition, and take the first best.
#include "engine/placement/fleet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/placement/gradient.h"
#include "engine/placement/policy.h"
#include "engine/placement/scarcity.h"
#include "engine/placement/test_random.h"

namespace divvy::placement {
namespace fleet_test {

constexpr int kModels = 3;

std::vector<std::int64_t> Capacity(const std::vector<NodeState>& nodes) {
  std::vector<std::int64_t> capacity(kModels, 0);
  for (const NodeState& node : nodes) capacity[node.model] += node.gpus * kGpuParts;
  return capacity;
}

/// Does every placement and release both ways.
class BothWays {
 public:
  BothWays(const std::string& policy, std::uint64_t seed) : random_(seed), shapes_(random_.Shapes(40)) {
    std::vector<NodeState> nodes;
    for (int i = 0; i < 50; ++i) nodes.push_back(random_.AnyNode(kModels));
    scorer_ = MakeScorer(policy, CountShapes(shapes_), 40, Capacity(nodes));
    fleet_.emplace(nodes, scorer_);
  }

  void Step() {
    if (!taken_.empty() && random_.Below(4) == 0) {
      const auto which = static_cast<std::size_t>(random_.Below(static_cast<int>(taken_.size())));
      fleet_->Release(taken_[which].first, taken_[which].second);
      taken_.erase(taken_.begin() + static_cast<std::ptrdiff_t>(which));
      return;
    }
    const Shape& shape = shapes_[static_cast<std::size_t>(random_.Below(static_cast<int>(shapes_.size())))];
    const ShapeIndex index = fleet_->Know(shape);
    const auto spot = fleet_->Find(index);
    ASSERT_EQ(spot, Plain(shape));
    if (!spot) return;
    fleet_->Take(index, *spot);
    taken_.emplace_back(index, *spot);
  }

 private:
  std::optional<Spot> Plain(const Shape& shape) const {
    Score best = kNoRoom;
    Spot spot;
    for (NodeIndex i = 0; i < fleet_->nodes().size(); ++i) {
      const NodeState& node = fleet_->nodes()[i];
      const Score score = scorer_->Rate(node, scorer_->Worth(node), shape);
      if (score <= best) continue;
      best = score;
      spot = {i, shape.gpus == 0 ? GpuPlace() : scorer_->Choose(node, scorer_->Worth(node), shape)};
    }
    if (best == kNoRoom) return std::nullopt;
    return spot;
  }

  TestRandom random_;
  std::vector<Shape> shapes_;
  std::shared_ptr<const Scorer> scorer_;
  std::optional<Fleet> fleet_;
  std::vector<std::pair<ShapeIndex, Spot>> taken_;
};

TEST(Fleet, AgreesWithScoringEveryNode) {
  for (const std::string policy :
       {"default", "fgd", "best-fit", "dot-prod", "packing", "clustering", "pack", "spread", "sequential"}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      BothWays both(policy, seed);
      // Long enough that the change log restarts.
      for (int step = 0; step < 700; ++step) {
        both.Step();
        if (HasFatalFailure()) FAIL() << policy << " seed " << seed << " step " << step;
      }
    }
  }
}

TEST(Fleet, DropsItsScoresWithANewScorer) {
  const std::vector<NodeState> nodes = {MakeNode(8000, 1024, 8, 0), MakeNode(8000, 1024, 2, 0)};
  Fleet fleet(nodes, MakeScorer("spread", {}, 0, {10 * kGpuParts}));
  Shape shape;
  shape.gpus = 1;
  shape.parts = kGpuParts;
  const ShapeIndex index = fleet.Know(shape);
  EXPECT_EQ(fleet.Know(shape), index);
  EXPECT_EQ(fleet.Find(index)->node, 0u);
  fleet.SetScorer(MakeScorer("pack", {}, 0, {10 * kGpuParts}));
  EXPECT_EQ(fleet.Find(index)->node, 1u);
}

TEST(Fleet, RandomPlacementReachesEveryNodeAndGpuWithRoom) {
  std::vector<NodeState> nodes(5, MakeNode(8000, 1024, 2, 0));
  Fleet fleet(nodes, MakeScorer("random", {}, 0, {10 * kGpuParts}));
  Shape shape;
  shape.gpus = 1;
  shape.parts = 6000;
  const ShapeIndex index = fleet.Know(shape);
  fleet.Take(index, {1, AtGpus(0b01)});
  fleet.Take(index, {3, AtGpus(0b01)});
  fleet.Take(index, {3, AtGpus(0b10)});
  std::vector<int> seen(10, 0);
  for (std::uint64_t node = 0; node < 4; ++node) {
    for (std::uint64_t gpu = 0; gpu < 2; ++gpu) {
      const auto spot = fleet.FindAnywhere(index, node, gpu);
      ASSERT_TRUE(spot);
      ++seen[spot->node * 2 + (spot->place == AtGpus(0b10))];
    }
  }
  EXPECT_EQ(seen, (std::vector<int>{1, 1, 0, 2, 1, 1, 0, 0, 1, 1}));
}

/// FGD's score of one candidate, computed by the definition with the standard library's functions.
int PublishedScore(const NodeState& node, const Shape& shape, const GpuPlace& place,
                   const Fragmentation& fragmentation) {
  NodeState after = node;
  Take(after, shape, place);
  const double gain = static_cast<double>(fragmentation.Fragment(node) - fragmentation.Fragment(after)) /
                      static_cast<double>(fragmentation.total_weight());
  return static_cast<int>(100 / (1 + std::exp(-gain / kGpuParts)));
}

TEST(Gradient, WithoutPricesIsThePublishedScore) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TestRandom random(seed);
    const std::vector<Shape> shapes = random.Shapes(50);
    const Fragmentation fragmentation(Typical(CountShapes(shapes), 95), kModels);
    const Gradient gradient(fragmentation, WastePrice({}), {});
    for (int i = 0; i < 200; ++i) {
      const NodeState node = random.UsedNode(kModels, shapes);
      const Shape& shape = shapes[static_cast<std::size_t>(random.Below(50))];
      const std::int64_t worth = gradient.Worth(node);
      if (!Fits(node, shape)) {
        ASSERT_EQ(gradient.Rate(node, worth, shape), kNoRoom);
        continue;
      }
      int best = -1;
      GpuPlace place;
      if (shape.is_share()) {
        for (int gpu = 0; gpu < node.gpus; ++gpu) {
          if (RoomOfGpu(node, gpu).free_parts < shape.parts) continue;
          const GpuPlace one = {GpuSet::Only(gpu)};
          const int score = PublishedScore(node, shape, one, fragmentation);
          if (score > best) best = score, place = one;
        }
      } else {
        place = shape.gpus == 0 ? GpuPlace() : FirstGpus(node, shape);
        best = PublishedScore(node, shape, place, fragmentation);
      }
      ASSERT_EQ(gradient.Rate(node, worth, shape), best) << "seed " << seed << " case " << i;
      const GpuPlace chosen = shape.gpus > 0 ? gradient.Choose(node, worth, shape) : GpuPlace();
      ASSERT_EQ(chosen, place) << "seed " << seed << " case " << i;
    }
  }
}

Demand OneOf(std::initializer_list<Shape> shapes) { return CountShapes(shapes); }

Shape Request(int gpus, int parts, int cpu_milli = 0, ModelSet models = kAnyModel) {
  return {cpu_milli, 0, static_cast<std::int16_t>(gpus), static_cast<std::int16_t>(parts), models};
}

NodeIndex NodeFor(const std::string& policy, const Demand& demand, const std::vector<NodeState>& nodes,
                  const Shape& shape) {
  Fleet fleet(nodes, MakeScorer(policy, demand, 1e6, Capacity(nodes)));
  return fleet.Find(fleet.Know(shape))->node;
}

TEST(DefaultPolicy, LeavesTheScarceModelToRequestsThatNeedIt) {
  // Half a GPU of model 0 is free, and a whole one of model 1. The gradient alone would use the half.
  std::vector<NodeState> nodes = {MakeNode(64'000, 1024, 1, 0), MakeNode(64'000, 1024, 1, 1)};
  Take(nodes[0], Request(1, 5000), AtGpus(0b1));
  const Demand demand = OneOf({Request(1, 5000, 0, 0b01), Request(1, kGpuParts)});
  EXPECT_EQ(NodeFor("fgd", demand, nodes, Request(1, 5000)), 0u);
  EXPECT_EQ(NodeFor("default", demand, nodes, Request(1, 5000)), 1u);
  EXPECT_EQ(NodeFor("default", demand, nodes, Request(1, 5000, 0, 0b01)), 0u);
}

TEST(DefaultPolicy, PlacesCpuHeavyRequestsWhereCoresWouldStayIdle) {
  // Requests have 8 cores per GPU on average. The first node has exactly that, the second has plenty.
  const std::vector<NodeState> nodes = {MakeNode(32'000, 1024, 4, 0), MakeNode(96'000, 1024, 4, 0)};
  const Demand demand = OneOf({Request(1, kGpuParts, 4000), Request(1, kGpuParts, 12'000)});
  EXPECT_EQ(NodeFor("default", demand, nodes, Request(1, kGpuParts, 12'000)), 1u);
  EXPECT_EQ(NodeFor("default", demand, nodes, Request(1, kGpuParts, 4000)), 0u);
  EXPECT_EQ(NodeFor("default", demand, nodes, Request(0, 0, 12'000)), 1u);
}

TEST(DefaultPolicy, KeepsHalfGpusForHalfGpuRequests) {
  // Both GPUs are unusable for whole requests. But a third placed in the half leaves an unusable sixth, and in two
  // thirds it leaves a third.
  std::vector<NodeState> nodes = {MakeNode(64'000, 1024, 1, 0), MakeNode(64'000, 1024, 1, 0)};
  Take(nodes[0], Request(1, 5000), AtGpus(0b1));
  Take(nodes[1], Request(1, 3300), AtGpus(0b1));
  const Demand demand = {{Request(1, 3300), 3}, {Request(1, 5000), 1}, {Request(1, kGpuParts), 97}};
  EXPECT_EQ(NodeFor("fgd", demand, nodes, Request(1, 3300)), 0u);
  EXPECT_EQ(NodeFor("default", demand, nodes, Request(1, 3300)), 1u);
  EXPECT_EQ(NodeFor("default", demand, nodes, Request(1, 5000)), 0u);
}

TEST(SimplePolicies, PlaceAsTheirNamesSay) {
  std::vector<NodeState> nodes(3, MakeNode(64'000, 1024, 4, 0));
  Take(nodes[1], Request(2, kGpuParts), AtGpus(0b0011));
  Take(nodes[2], Request(1, 5000), AtGpus(0b0001));
  const Shape whole = Request(1, kGpuParts);
  EXPECT_EQ(NodeFor("sequential", {}, nodes, whole), 0u);
  EXPECT_EQ(NodeFor("spread", {}, nodes, whole), 0u);
  EXPECT_EQ(NodeFor("pack", {}, nodes, whole), 1u);
  EXPECT_EQ(NodeFor("best-fit", {}, nodes, whole), 1u);
  EXPECT_EQ(NodeFor("packing", {}, nodes, whole), 1u);
  EXPECT_EQ(NodeFor("packing", {}, nodes, Request(1, 5000)), 2u);
  EXPECT_EQ(NodeFor("clustering", {}, nodes, Request(2, kGpuParts)), 1u);
  EXPECT_EQ(NodeFor("clustering", {}, nodes, Request(1, 3000)), 2u);
  EXPECT_EQ(MakeScorer("no-such-policy", {}, 0, {kGpuParts}), nullptr);
}

}  // namespace fleet_test
}  // namespace divvy::placement
