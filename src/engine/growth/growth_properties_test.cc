// Properties of decisions in generated worlds, and a comparison with the best possible choice on tiny ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "engine/growth/ceiling.h"
#include "engine/growth/growth_test_world.h"
#include "engine/growth/growth_text.h"

namespace divvy::growth {
namespace growth_properties_test {

using testing_world::At;
using testing_world::BusyNode;
using testing_world::GpuJob;
using testing_world::Node;
using testing_world::OneShape;
using testing_world::World;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  int Below(int n) {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return static_cast<int>((x ^ (x >> 31)) % static_cast<std::uint64_t>(n));
  }
  bool Coin() { return Below(2) == 0; }

 private:
  std::uint64_t state_;
};

std::vector<NodeShape> SomeShapes(Draw& draw) {
  std::vector<NodeShape> shapes;
  for (int gpus = 1; gpus <= 8; gpus *= 2) {
    const double per_gpu = 0.5 + draw.Below(100) / 50.0;
    shapes.push_back(OneShape("s" + std::to_string(gpus), gpus, gpus * per_gpu));
  }
  shapes.erase(shapes.begin() + draw.Below(3));
  return shapes;
}

Demand SomeDemand(Draw& draw, Duration run_time) {
  Demand demand = GpuJob(1 << draw.Below(4), static_cast<std::uint32_t>(1 + draw.Below(6)), run_time);
  if (demand.tasks[0].shape.gpus == 1 && draw.Coin())
    demand.tasks[0].shape.parts = static_cast<std::int16_t>(1000 * (1 + draw.Below(9)));
  return demand;
}

/// Adds what the cost property leaves out: gangs, limits, budgets, nodes in all states, arrivals.
void Complicate(Draw& draw, World& world) {
  GrowthInput& input = world.input;
  world.Change([&](Provider& provider) {
    if (draw.Coin()) provider.limits.nodes = draw.Below(12);
    if (draw.Coin()) provider.limits.gpus = draw.Below(60);
    if (draw.Coin()) provider.limits.hourly = Money(1'000'000 * (1 + draw.Below(40)));
    if (draw.Coin()) provider.limits.monthly = Money(1'000'000 * (1 + draw.Below(400)));
    if (draw.Below(4) == 0) provider.billing_period = 1h;
    if (draw.Below(8) == 0) provider.is_enabled = false;
    if (draw.Below(4) == 0) provider.teams = {"a"};
    for (NodeShape& shape : provider.shapes) {
      if (draw.Below(6) == 0) shape.is_spot = true;
      if (draw.Below(6) == 0) shape.max_lifetime = std::chrono::hours(2 + draw.Below(20));
    }
  });
  if (draw.Coin()) input.providers[0].spent_this_month = Money(1'000'000 * draw.Below(100));
  if (draw.Below(6) == 0) input.providers[0].down_until = At(1min);
  if (draw.Coin()) input.gpus_per_hour = draw.Below(60);
  if (draw.Coin()) input.team_hourly["a"] = Money(1'000'000 * draw.Below(20));
  for (Demand& demand : input.demands) {
    if (draw.Below(4) == 0) demand.tasks[0].count = 2 + draw.Below(3);
    if (draw.Below(6) == 0) demand.tasks[0].is_apart = true;
    demand.team = draw.Coin() ? "a" : "b";
    demand.can_requeue = draw.Coin();
    if (draw.Coin()) demand.time_limit = std::chrono::hours(1 + draw.Below(10));
    if (draw.Below(6) == 0) demand.max_hourly = Money(1'000'000 * (1 + draw.Below(8)));
    if (draw.Below(8) == 0) demand.may_grow = false;
    demand.run_time = std::chrono::minutes(draw.Below(600));
  }
  const int nodes = draw.Below(6);
  for (int i = 0; i < nodes; ++i) {
    const auto offer = static_cast<OfferIndex>(draw.Below(static_cast<int>(world.catalogue->offers().size())));
    const auto id = static_cast<std::uint64_t>(i + 1);
    OwnedNode node = draw.Coin() ? BusyNode(world, id, At(std::chrono::seconds(draw.Below(600))), offer)
                                 : Node(world, id, draw.Coin() ? NodePhase::kReady : NodePhase::kComing, offer);
    node.created -= std::chrono::minutes(draw.Below(120));
    if (node.phase == NodePhase::kReady && node.releases.empty())
      node.idle_since = node.created + (input.now - node.created) / 2;
    if (draw.Below(8) == 0) node.phase = NodePhase::kReturning;
    if (draw.Below(8) == 0) node.offer.reset();
    input.nodes.push_back(std::move(node));
  }
}

TEST(GrowthProperties, RulesHoldInGeneratedWorlds) {
  int requests = 0, returns = 0, refusals = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    World world(SomeShapes(draw));
    const int demands = draw.Below(10);
    for (int i = 0; i < demands; ++i) world.input.demands.push_back(SomeDemand(draw, 1h));
    Complicate(draw, world);
    const GrowthDecision decision = world.Decide();  // Checks the rules and determinism.
    // Nothing is left for the ceiling to refuse.
    EXPECT_TRUE(WithinCeiling(world.input, decision.requests).refused.empty());
    // The nodes of a gang are enough for it, together with what it can use; every refusal has a reason.
    for (std::size_t i = 0; i < world.input.demands.size(); ++i) {
      const auto blockers = WhyNoNode(world.input, decision, i);
      EXPECT_EQ(blockers.empty(), decision.verdicts[i].refused == 0);
      for (const GrowthBlocker& blocker : blockers)
        EXPECT_NE(BlockerText(world.input, world.input.demands[i], blocker), "");
      refusals += static_cast<int>(decision.verdicts[i].refused);
    }
    requests += static_cast<int>(decision.requests.size());
    returns += static_cast<int>(decision.returns.size());
    // Once the requests are made, the same situation needs no further nodes for the jobs that they are for.
    GrowthInput later = world.input;
    std::uint64_t id = 1000;
    for (const NodeRequest& request : decision.requests)
      later.nodes.push_back(Node(world, id++, NodePhase::kComing, request.offer));
    std::erase_if(later.nodes, [&](const OwnedNode& node) {
      return std::ranges::any_of(decision.returns, [&](const NodeReturn& it) { return it.node == node.id; });
    });
    EXPECT_EQ(CheckGrowth(later, DecideGrowth(later)), "");
    EXPECT_TRUE(WithinCeiling(later, DecideGrowth(later).requests).refused.empty());
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(requests, 500);
  EXPECT_GT(returns, 100);
  EXPECT_GT(refusals, 500);
}

Money Requested(const World& world, const GrowthDecision& decision) {
  Money sum;
  for (const NodeRequest& request : decision.requests) sum += world.catalogue->offers()[request.offer].hourly;
  return sum;
}

TEST(GrowthProperties, NeverCostsMoreThanOneNodePerJob) {
  double cost = 0, alone_cost = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    World world(SomeShapes(draw));
    world.input.rules.most_requests = 10'000;
    const int demands = 1 + draw.Below(10);
    for (int i = 0; i < demands; ++i) world.input.demands.push_back(SomeDemand(draw, 2h));
    std::erase_if(world.input.demands, [&](const Demand& demand) { return !CheapestAlone(world.input, demand); });
    const GrowthDecision decision = world.Decide();
    Money alone;
    for (const Demand& demand : world.input.demands) alone += CheapestAlone(world.input, demand)->hourly * demand.jobs;
    EXPECT_LE(Requested(world, decision), alone);
    for (const Verdict& verdict : decision.verdicts) EXPECT_EQ(verdict.refused, 0U);
    cost += Requested(world, decision).units();
    alone_cost += alone.units();
    // Nodes that were requested are enough: with them on their way nothing more is requested.
    GrowthInput later = world.input;
    std::uint64_t id = 1;
    for (const NodeRequest& request : decision.requests)
      later.nodes.push_back(Node(world, id++, NodePhase::kComing, request.offer));
    EXPECT_LE(DecideGrowth(later).requests.size(), decision.requests.size() / 10);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_LT(cost, 0.9 * alone_cost);
}

/// The lowest price per hour of nodes that hold all jobs: every division of the jobs among nodes is tried.
Money Optimum(const World& world, const std::vector<Demand>& jobs) {
  const std::size_t all = std::size_t{1} << jobs.size();
  std::vector<Money> one_node(all, Money(std::numeric_limits<std::int64_t>::max() / 4));
  for (std::size_t set = 1; set < all; ++set) {
    for (const Offer& offer : world.catalogue->offers()) {
      placement::NodeState room = offer.node;
      bool fits = true;
      // Largest first. With whole GPUs and halves this finds a place whenever there is one.
      for (const bool is_whole : {true, false}) {
        for (std::size_t i = 0; i < jobs.size(); ++i) {
          const placement::Shape& shape = jobs[i].tasks[0].shape;
          if (((set >> i) & 1) == 0 || (shape.parts == placement::kGpuParts) != is_whole) continue;
          fits = fits && placement::Fits(room, shape);
          if (fits) TakeRoom(room, shape);
        }
      }
      if (fits) one_node[set] = std::min(one_node[set], offer.hourly);
    }
  }
  std::vector<Money> best(all, Money(std::numeric_limits<std::int64_t>::max() / 4));
  best[0] = Money();
  for (std::size_t set = 1; set < all; ++set) {
    for (std::size_t part = set; part > 0; part = (part - 1) & set)
      best[set] = std::min(best[set], one_node[part] + best[set ^ part]);
  }
  return best[all - 1];
}

TEST(GrowthProperties, IsNearTheBestChoiceOnTinyWorlds) {
  double cost = 0, best_cost = 0, worst = 1;
  int exact = 0, worlds = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    World world(SomeShapes(draw));
    const int jobs = 1 + draw.Below(7);
    for (int i = 0; i < jobs; ++i) {
      Demand demand = GpuJob(1 << draw.Below(3));
      if (demand.tasks[0].shape.gpus == 1 && draw.Coin()) demand.tasks[0].shape.parts = placement::kGpuParts / 2;
      world.input.demands.push_back(demand);
    }
    const Money ours = Requested(world, world.Decide());
    const Money best = Optimum(world, world.input.demands);
    EXPECT_GE(ours, best);
    ++worlds;
    exact += ours == best;
    cost += ours.units();
    best_cost += best.units();
    worst = std::max(worst, ours.units() / best.units());
  }
  RecordProperty("exact", exact);
  EXPECT_GE(exact, worlds * 6 / 10);
  EXPECT_LE(cost, 1.08 * best_cost);
  EXPECT_LE(worst, 2.0);
}

}  // namespace growth_properties_test
}  // namespace divvy::growth
