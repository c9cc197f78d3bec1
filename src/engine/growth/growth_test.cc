#include "engine/growth/growth.h"

#include <gtest/gtest.h>

#include "engine/growth/ceiling.h"
#include "engine/growth/growth_test_world.h"
#include "engine/growth/growth_text.h"

namespace divvy::growth {
namespace growth_test {

using testing_world::At;
using testing_world::GpuJob;
using testing_world::Node;
using testing_world::OneShape;
using testing_world::World;

std::vector<std::string> Names(const World& world, const GrowthDecision& decision) {
  std::vector<std::string> names;
  for (const NodeRequest& request : decision.requests) names.push_back(world.catalogue->shape(request.offer).name);
  return names;
}
using Strings = std::vector<std::string>;

std::string FirstBlocker(const World& world, const GrowthDecision& decision, std::size_t demand = 0) {
  const auto blockers = WhyNoNode(world.input, decision, demand);
  return blockers.empty() ? "" : BlockerText(world.input, world.input.demands[demand], blockers.front());
}

TEST(Growth, AJobGetsTheCheapestNodeThatFits) {
  World world({OneShape("small", 1, 1.0), OneShape("large", 8, 4.4)});
  world.input.demands = {GpuJob(1)};
  const auto decision = world.Decide();
  EXPECT_EQ(Names(world, decision), Strings{"small"});
  EXPECT_EQ(decision.verdicts[0].on_new, 1U);
  EXPECT_EQ(decision.verdicts[0].expected, At(180s));
}

TEST(Growth, JobsShareOneNodeWhereThatIsCheaper) {
  World world({OneShape("small", 1, 1.0), OneShape("large", 8, 4.4)});
  world.input.demands = {GpuJob(1, 6)};
  EXPECT_EQ(Names(world, world.Decide()), Strings{"large"});
  world.input.demands = {GpuJob(1, 4)};
  EXPECT_EQ(Names(world, world.Decide()), (Strings{"small", "small", "small", "small"}));
}

TEST(Growth, DifferentJobsAndFractionsShareOneNode) {
  World world({OneShape("small", 1, 1.0), OneShape("large", 4, 2.2)});
  Demand half = GpuJob(1, 4);
  half.tasks[0].shape.parts = 5000;
  world.input.demands = {GpuJob(2), half};
  EXPECT_EQ(Names(world, world.Decide()), Strings{"large"});
  world.input.demands = {half};
  EXPECT_EQ(Names(world, world.Decide()), (Strings{"small", "small"}));
}

TEST(Growth, ALongJobDoesNotKeepALargeNodeThatShortJobsFilled) {
  World world({OneShape("small", 1, 1.0), OneShape("large", 8, 4.4)});
  world.input.demands = {GpuJob(1, 7, 10min), GpuJob(1, 1, 100h)};
  EXPECT_EQ(Names(world, world.Decide()), (Strings{"large", "small"}));
}

TEST(Growth, ArrivingJobsMakeALargerNodeWorthwhile) {
  World world({OneShape("small", 1, 1.0), OneShape("large", 8, 4.4)});
  world.input.demands = {GpuJob(1, 1, 10h)};
  EXPECT_EQ(Names(world, world.Decide()), Strings{"small"});
  world.input.gpus_per_hour = 40;
  EXPECT_EQ(Names(world, world.Decide()), Strings{"large"});
}

TEST(Growth, NodesOnTheirWayCount) {
  World world({OneShape("large", 8, 4.4)});
  world.input.nodes = {Node(world, 1, NodePhase::kComing)};
  world.input.demands = {GpuJob(1, 8)};
  auto decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(decision.verdicts[0].on_coming, 8U);
  world.input.demands = {GpuJob(1, 9)};
  decision = world.Decide();
  EXPECT_EQ(decision.requests.size(), 1U);
  EXPECT_EQ(decision.verdicts[0].on_coming, 8U);
  EXPECT_EQ(decision.verdicts[0].on_new, 1U);
}

TEST(Growth, WaitsForANodeThatIsFreeSooner) {
  World world({OneShape("small", 1, 1.0)});
  world.input.nodes = {testing_world::BusyNode(world, 1, At(80s))};
  world.input.demands = {GpuJob(1)};
  auto decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(decision.verdicts[0].on_existing, 1U);
  EXPECT_EQ(decision.verdicts[0].expected, At(80s));
  EXPECT_EQ(VerdictText(world.input, decision, 0),
            Strings{"1 job will fit on an existing node in 1 min 20 s, before a new one could start"});
  world.input.nodes = {testing_world::BusyNode(world, 1, At(100s))};
  EXPECT_EQ(world.Decide().requests.size(), 1U) << "such an end is not certain enough";
}

TEST(Growth, RoomThatTheSchedulerKeepsForOthersDoesNotCount) {
  World world({OneShape("small", 1, 1.0)});
  world.input.nodes = {Node(world, 1, NodePhase::kReady)};
  world.input.demands = {GpuJob(1)};
  EXPECT_EQ(world.Decide().requests.size(), 1U);
}

TEST(Growth, AGangGetsAllItsNodesOrNone) {
  World world({OneShape("large", 8, 4.4)});
  Demand gang = GpuJob(8);
  gang.tasks[0].count = 2;
  world.input.demands = {gang};
  auto decision = world.Decide();
  ASSERT_EQ(decision.requests.size(), 2U);
  EXPECT_EQ(decision.requests[0].set, decision.requests[1].set);
  world.SetLimits({.nodes = 1});
  decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(decision.verdicts[0].refused, 1U);
  EXPECT_EQ(FirstBlocker(world, decision),
            "provider p: the job needs 2 nodes of shape large, but its limit of 1 leaves 1");
}

TEST(Growth, AGangUsesFreeNodesAndGetsOnlyTheMissingOnes) {
  World world({OneShape("large", 8, 4.4)});
  world.input.nodes = {Node(world, 1, NodePhase::kReady), Node(world, 2, NodePhase::kReady)};
  Demand gang = GpuJob(8);
  gang.tasks[0].count = 3;
  world.input.demands = {gang};
  const auto decision = world.Decide();
  EXPECT_EQ(decision.requests.size(), 1U);
  EXPECT_TRUE(decision.returns.empty());
}

TEST(Growth, TheLastNodeOfAGangMayBeSmaller) {
  World world({OneShape("small", 2, 1.2), OneShape("large", 8, 4.4)});
  Demand gang = GpuJob(8);
  gang.tasks.push_back({GpuJob(2).tasks[0].shape, 1});
  world.input.demands = {gang};
  EXPECT_EQ(Names(world, world.Decide()), (Strings{"large", "small"}));
}

/// A task of the gang that does not fit beside another one of it must not take away that one's room.
TEST(Growth, AGangUsesTheRestOfABusyNode) {
  World world({OneShape("small", 2, 1.2), OneShape("large", 8, 4.4)});
  OwnedNode node = Node(world, 1, NodePhase::kReady, 1);
  for (const auto& [gpus, end] : {std::pair{3, At(5h)}, std::pair{1, At(1min)}}) {
    const placement::Shape shape = GpuJob(gpus).tasks[0].shape;
    const placement::GpuPlace place = placement::TightestGpus(node.room, shape);
    placement::Take(node.room, shape, place);
    node.releases.insert(node.releases.begin(), {end, shape, place});
  }
  world.input.nodes = {node};
  Demand gang = GpuJob(4);
  gang.tasks.push_back(GpuJob(2).tasks[0]);
  world.input.demands = {gang};
  EXPECT_EQ(Names(world, world.Decide()), Strings{"small"});
}

TEST(Growth, TasksThatMustBeApartGetNodesOfTheirOwn) {
  World world({OneShape("large", 8, 4.4)});
  Demand gang = GpuJob(2);
  gang.tasks[0].count = 3;
  gang.tasks[0].is_apart = true;
  world.input.demands = {gang};
  EXPECT_EQ(world.Decide().requests.size(), 3U);
}

TEST(Growth, LimitsHoldAndAreExplained) {
  World world({OneShape("small", 1, 3.0)});
  world.input.demands = {GpuJob(1, 5)};
  struct Case {
    ProviderLimits limits;
    std::size_t nodes;
    std::string text;
  };
  const Case cases[] = {
      {{.nodes = 2}, 2, "provider p: the job needs 1 node of shape small, but its limit of 2 leaves 0"},
      {{.gpus = 3}, 3, "provider p: 1 node of shape small would add 1 GPUs, but its limit of 3 leaves 0"},
      {{.hourly = Money(10'000'000)},
       3,
       "provider p: 1 node of shape small costs 3.00 per hour, but its limit of 10.00 per hour leaves 1.00"},
      {{.monthly = Money(107'000'000)},
       2,
       "provider p: 1 node of shape small would cost 3.00 in the next 1 h, but this month's limit of 107.00 leaves "
       "1.00"},
  };
  world.input.providers[0].spent_this_month = Money(100'000'000);
  for (const Case& one : cases) {
    world.SetLimits(one.limits);
    const auto decision = world.Decide();
    EXPECT_EQ(decision.requests.size(), one.nodes) << one.text;
    EXPECT_EQ(decision.verdicts[0].refused, 5 - one.nodes);
    EXPECT_EQ(FirstBlocker(world, decision), one.text);
  }
}

TEST(Growth, BudgetsOfTeamsAndJobsHoldAndAreExplained) {
  World world({OneShape("small", 1, 6.0)});
  Demand job = GpuJob(1);
  job.team = "vision";
  world.input.demands = {job};
  world.input.team_hourly["vision"] = Money(3'000'000);
  auto decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(FirstBlocker(world, decision),
            "provider p: 1 node of shape small costs 6.00 per hour, but the budget of team vision leaves 3.00");
  world.input.limiting_team["vision"] = "research";
  EXPECT_EQ(FirstBlocker(world, decision),
            "provider p: 1 node of shape small costs 6.00 per hour, but the budget of team research leaves 3.00");
  world.input.team_hourly.clear();
  world.input.demands[0].max_hourly = Money(5'000'000);
  decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(FirstBlocker(world, decision),
            "provider p: 1 node of shape small costs 6.00 per hour, but the job allows 5.00 (--max-price)");
}

TEST(Growth, OtherRefusalsAreExplained) {
  World world({OneShape("small", 1, 3.0)});
  const auto explain = [&](const Demand& demand) {
    world.input.demands = {demand};
    const auto decision = world.Decide();
    EXPECT_TRUE(decision.requests.empty());
    return FirstBlocker(world, decision);
  };
  EXPECT_EQ(explain(GpuJob(4)),
            "provider p: no shape is large enough or has the right GPUs; the largest has 1x V100, 16 CPUs");
  Demand other = GpuJob(1);
  other.providers = {"q"};
  EXPECT_EQ(explain(other), "provider p: the job names other providers (--provider q)");
  Demand still = GpuJob(1);
  still.may_grow = false;
  EXPECT_EQ(explain(still), "the job waits for existing nodes only (--no-grow)");
  world.input.providers[0].down_until = At(5min);
  EXPECT_EQ(explain(GpuJob(1)), "provider p: it failed, and is tried again in 5 min");
  EXPECT_EQ(world.Decide().next_wakeup, At(5min));
  world.input.providers[0].down_until = kNoTime;
  Demand unused = GpuJob(1);
  unused.not_before = RetryAfterUnused(2, At(0s));
  EXPECT_EQ(explain(unused),
            "a node that was requested for the job was returned unused, so something else keeps it; the next is "
            "requested in 10 min at the earliest");
  EXPECT_EQ(world.Decide().next_wakeup, At(10min));
  world.Change([](Provider& provider) { provider.is_enabled = false; });
  EXPECT_EQ(explain(GpuJob(1)), "provider p: it is disabled");
  world.Change([](Provider& provider) {
    provider.is_enabled = true;
    provider.teams = {"vision"};
  });
  EXPECT_EQ(explain(GpuJob(1)), "provider p: only jobs of these teams may use it: vision");
}

TEST(Growth, SpotNodesAreForJobsThatCanBeRequeued) {
  NodeShape spot = OneShape("spot", 1, 1.0);
  spot.is_spot = true;
  World world({spot});
  world.input.demands = {GpuJob(1)};
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(FirstBlocker(world, decision),
            "provider p: it may remove nodes of shape spot at any time, and the job cannot be requeued");
  world.input.demands[0].can_requeue = true;
  EXPECT_EQ(world.Decide().requests.size(), 1U);
}

TEST(Growth, TimeLimitedNodesAreForJobsThatSurelyEndInTime) {
  NodeShape pilot = OneShape("pilot", 1, 1.0);
  pilot.max_lifetime = 4h;
  World world({pilot});
  Demand job = GpuJob(1);
  world.input.demands = {job};
  auto decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(FirstBlocker(world, decision),
            "provider p: nodes of shape pilot exist for 4 h, and the job has no time limit and cannot be requeued");
  job.time_limit = 4h;
  world.input.demands = {job};
  decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  job.time_limit = 3h;
  world.input.demands = {job};
  EXPECT_EQ(world.Decide().requests.size(), 1U);
  // A node on its way that will be removed too early does not count either.
  world.input.nodes = {Node(world, 1, NodePhase::kComing)};
  world.input.nodes[0].created = At(-2h);
  EXPECT_EQ(world.Decide().requests.size(), 1U);
}

TEST(Growth, ANodeAtTheEndOfItsLifetimeIsReturnedWithItsJobs) {
  NodeShape pilot = OneShape("pilot", 1, 1.0);
  pilot.max_lifetime = 4h;
  World world({pilot});
  world.input.nodes = {testing_world::BusyNode(world, 1, At(1h))};
  world.input.nodes[0].created = At(-4h + 3min);
  auto decision = world.Decide();
  EXPECT_TRUE(decision.returns.empty());
  EXPECT_EQ(decision.next_wakeup, At(1min));
  world.input.nodes[0].created = At(-4h + 2min);
  decision = world.Decide();
  ASSERT_EQ(decision.returns.size(), 1U);
  EXPECT_EQ(decision.returns[0], (NodeReturn{1, ReturnReason::kLifetime, true, true}));
}

TEST(Growth, AMonthWithoutMoneyReturnsEverything) {
  World world({OneShape("small", 1, 6.0)});
  world.SetLimits({.monthly = Money(100'000'000)});
  world.input.nodes = {testing_world::BusyNode(world, 1, At(1h))};
  world.input.providers[0].spent_this_month = Money(94'000'000);
  auto decision = world.Decide();
  EXPECT_TRUE(decision.returns.empty());
  EXPECT_EQ(decision.next_wakeup, At(58min));
  world.input.providers[0].spent_this_month = Money(99'800'000);
  decision = world.Decide();
  ASSERT_EQ(decision.returns.size(), 1U);
  EXPECT_EQ(decision.returns[0].reason, ReturnReason::kBudget);
  EXPECT_TRUE(decision.returns[0].is_forced);
}

TEST(Growth, AnIdleNodeIsReturnedAfterItsMinimalLifetime) {
  World world({OneShape("small", 1, 1.0)});
  world.input.nodes = {Node(world, 1, NodePhase::kReady)};
  OwnedNode& node = world.input.nodes[0];
  node.created = At(-4min);
  node.idle_since = At(-2min);
  auto decision = world.Decide();
  EXPECT_TRUE(decision.returns.empty());
  EXPECT_EQ(decision.next_wakeup, At(1min));
  node.created = At(-6min);
  decision = world.Decide();
  ASSERT_EQ(decision.returns.size(), 1U);
  EXPECT_EQ(decision.returns[0], (NodeReturn{1, ReturnReason::kIdle, false, true}));
}

TEST(Growth, DearerNodesAreReturnedEarlierUnlessTheirProviderSaysHowLong) {
  World world({OneShape("small", 1, 1.0), OneShape("large", 8, 4.0)});
  const auto start_within = [&](Duration startup) {
    world.Change([&](Provider& provider) {
      for (NodeShape& shape : provider.shapes) shape.startup = startup;
    });
  };
  start_within(10s);
  world.input.nodes = {Node(world, 1, NodePhase::kReady, 0), Node(world, 2, NodePhase::kReady, 1)};
  for (OwnedNode& node : world.input.nodes) {
    node.created = At(-1h);
    node.idle_since = At(-30s);
  }
  auto decision = world.Decide();
  ASSERT_EQ(decision.returns.size(), 1U);
  EXPECT_EQ(decision.returns[0].node, 2U) << "after half of the time, at four times the price";
  EXPECT_EQ(decision.next_wakeup, At(30s));
  start_within(45s);
  decision = world.Decide();
  EXPECT_TRUE(decision.returns.empty()) << "not earlier than another node could start";
  EXPECT_EQ(decision.next_wakeup, At(15s));
  start_within(10s);
  world.Change([](Provider& provider) { provider.idle = 1min; });
  EXPECT_TRUE(world.Decide().returns.empty());
}

TEST(Growth, ThePricesOfDisabledProvidersDoNotShortenTheIdleTimeOfOthers) {
  World world({OneShape("large", 8, 4.0)});
  Provider other = world.providers[0];
  other.name = "other";
  other.shapes = {OneShape("small", 1, 1.0)};
  world.providers.push_back(std::move(other));
  world.input.providers.resize(2);
  world.Change([](Provider& provider) { provider.shapes[0].startup = 10s; });
  world.input.nodes = {Node(world, 1, NodePhase::kReady)};
  world.input.nodes[0].created = At(-1h);
  world.input.nodes[0].idle_since = At(-30s);
  EXPECT_EQ(world.Decide().returns.size(), 1U);
  world.providers[1].is_enabled = false;
  world.Compile();
  EXPECT_TRUE(world.Decide().returns.empty());
}

TEST(Growth, AnIdleNodeIsKeptForJobsThatAreExpectedSoon) {
  World world({OneShape("small", 1, 1.0)});
  world.input.nodes = {Node(world, 1, NodePhase::kReady), Node(world, 2, NodePhase::kReady)};
  world.input.nodes[0].idle_since = At(-10min);
  world.input.nodes[1].idle_since = At(-2min);
  for (OwnedNode& node : world.input.nodes) node.created = At(-1h);
  // One GPU is needed every two minutes, so one node is used within the three minutes, and the second is not.
  world.input.gpus_per_hour = 30;
  const auto decision = world.Decide();
  ASSERT_EQ(decision.returns.size(), 1U);
  EXPECT_EQ(decision.returns[0].node, 1U);
}

TEST(Growth, APaidPeriodIsUsedUp) {
  World world({OneShape("small", 1, 1.0)});
  world.Change([](Provider& provider) { provider.billing_period = 1h; });
  world.input.nodes = {Node(world, 1, NodePhase::kReady)};
  world.input.nodes[0].idle_since = At(-20min);
  world.input.nodes[0].created = At(-30min);
  auto decision = world.Decide();
  EXPECT_TRUE(decision.returns.empty());
  EXPECT_EQ(decision.next_wakeup, At(28min));
  world.input.nodes[0].created = At(-58min);
  EXPECT_EQ(world.Decide().returns.size(), 1U);
}

TEST(Growth, NodesOfADisabledProviderAreReturnedWhenIdle) {
  World world({OneShape("small", 1, 1.0)});
  world.Change([](Provider& provider) { provider.is_enabled = false; });
  world.input.nodes = {Node(world, 1, NodePhase::kReady), testing_world::BusyNode(world, 2, At(1h))};
  world.input.nodes[0].idle_since = At(0s);
  const auto decision = world.Decide();
  ASSERT_EQ(decision.returns.size(), 1U);
  EXPECT_EQ(decision.returns[0].reason, ReturnReason::kDisabled);
}

TEST(Growth, ANodeThatWasAttachedByHandIsNeverReturned) {
  World world({OneShape("small", 1, 1.0)});
  world.input.nodes = {Node(world, 1, NodePhase::kReady)};
  world.input.nodes[0].offer.reset();
  world.input.nodes[0].idle_since = At(-100h);
  EXPECT_TRUE(world.Decide().returns.empty());
}

/// A job that never starts, whatever the reason, must not make nodes come and go.
TEST(Growth, NodesDoNotComeAndGoForAJobThatNeverStarts) {
  World world({OneShape("small", 1, 1.0)});
  world.input.demands = {GpuJob(1)};
  int requested = 0, unused = 0;
  std::uint64_t id = 1;
  for (Time now = At(0s); now < At(24h); now += 10s) {
    world.input.now = now;
    for (OwnedNode& node : world.input.nodes) {
      if (node.phase != NodePhase::kComing || node.ready > now) continue;
      node.phase = NodePhase::kReady;
      node.idle_since = now;
    }
    const auto decision = world.Decide();
    for (const NodeReturn& it : decision.returns) {
      std::erase_if(world.input.nodes, [&](const OwnedNode& node) { return node.id == it.node; });
      EXPECT_FALSE(it.was_used);
      world.input.demands[0].not_before = RetryAfterUnused(++unused, now);
    }
    for (std::size_t i = 0; i < decision.requests.size(); ++i) {
      world.input.nodes.push_back(Node(world, id++, NodePhase::kComing));
      world.input.nodes.back().was_used = false;
      ++requested;
    }
  }
  // The pauses double: 5, 10, 20 ... minutes.
  EXPECT_GE(requested, 5);
  EXPECT_LE(requested, 10);
}

TEST(Growth, ManyNodesAreRequestedInSeveralDecisions) {
  World world({OneShape("small", 1, 1.0)});
  world.input.rules.most_requests = 10;
  world.input.demands = {GpuJob(1, 25)};
  const auto decision = world.Decide();
  EXPECT_EQ(decision.requests.size(), 10U);
  EXPECT_EQ(decision.verdicts[0].deferred, 15U);
  EXPECT_EQ(decision.next_wakeup, At(1s));
}

TEST(Ceiling, RefusesWholeSetsThatExceedALimit) {
  World world({OneShape("small", 2, 1.0)});
  world.SetLimits({.gpus = 5});
  world.input.nodes = {Node(world, 1, NodePhase::kComing)};
  const auto result = WithinCeiling(world.input, {{0, 1, 0}, {0, 1, 0}, {0, 2, 0}, {7, 3, 0}});
  EXPECT_EQ(result.allowed, (std::vector<NodeRequest>{{0, 2, 0}}));
  EXPECT_EQ(result.refused,
            (Strings{"provider p: GPUs 6 would exceed the limit of 5", "offer 7 is not in the catalogue"}));
}

TEST(Catalogue, LeavesOutShapesThatAreNowhereBetter) {
  World world(
      {OneShape("dear", 1, 2.0), OneShape("cheap", 1, 1.0), OneShape("same", 1, 1.0), OneShape("large", 2, 1.5)});
  EXPECT_EQ(world.catalogue->by_value().size(), 2U);
  EXPECT_EQ(world.catalogue->shape(world.catalogue->by_value()[0]).name, "large");
  EXPECT_EQ(world.catalogue->shape(world.catalogue->by_value()[1]).name, "cheap");
}

TEST(MergeDemands, EqualJobsBecomeOneDemand) {
  const auto merged = MergeDemands({GpuJob(1), GpuJob(2), GpuJob(1, 3)});
  ASSERT_EQ(merged.demands.size(), 2U);
  EXPECT_EQ(merged.demands[0], GpuJob(1, 4));
  EXPECT_EQ(merged.demands[1], GpuJob(2));
  EXPECT_EQ(merged.group_of, (std::vector<std::uint32_t>{0, 1, 0}));
}

}  // namespace growth_test
}  // namespace divvy::growth
