// Nodes from providers in a replay: what they cost, and when jobs start.
#include "simulate/growth_decider.h"

#include <gtest/gtest.h>

namespace divvy::simulate {
namespace growth_decider_test {

TraceJob Job(int gpus, Duration submit, Duration runtime) {
  TraceJob job;
  job.id = "j";
  job.gpus = gpus;
  job.submit = Time(std::chrono::hours(1000)) + submit;
  job.runtime = runtime;
  return job;
}

NodeShape Shape(std::string name, int gpus, double hourly) {
  NodeShape shape;
  shape.name = std::move(name);
  shape.gpu_model = "V100";
  shape.gpus = gpus;
  shape.cpus = 8 * gpus;
  shape.memory = 64_GiB;
  shape.hourly = Money(static_cast<std::int64_t>(hourly * 1e6));
  shape.startup = 3min;
  return shape;
}

struct Ran {
  Replayed replayed;
  GrowthTotals totals;
  double Wait(std::size_t job) const {
    return ToSeconds(replayed.outcomes.at(job).first_start - replayed.outcomes.at(job).submit);
  }
};

Ran RunWith(GrowthPolicy policy, std::vector<TraceJob> jobs, std::vector<NodeShape> shapes, ProviderLimits limits = {},
            const std::string& own = {}) {
  Workload workload;
  workload.jobs = std::move(jobs);
  Arrange(workload);
  Provider provider;
  provider.name = "p";
  provider.limits = limits;
  provider.shapes = std::move(shapes);
  GrowthSetup setup;
  setup.policy = policy;
  setup.engine.predicting = Predicting::kTrue;
  setup.providers = {provider};
  const auto decider = MakeGrowthDecider(own.empty() ? TraceCluster() : ParseCluster(own).value(), setup);
  EXPECT_TRUE(decider) << decider.error().message;
  auto replayed = Replay(workload, **decider);
  EXPECT_TRUE(replayed) << replayed.error().message;
  return {std::move(*replayed), (*decider)->Totals()};
}

TEST(GrowthDecider, AJobWaitsForItsNodeAndTheNodeIsReturned) {
  const Ran ran = RunWith(GrowthPolicy::kDivvy, {Job(1, 0s, 1h)}, {Shape("s", 1, 2.0)});
  EXPECT_EQ(ran.Wait(0), 180);
  EXPECT_EQ(ran.totals.nodes_requested, 1);
  // Three minutes of startup, an hour of work, and ten minutes until it is returned.
  EXPECT_NEAR(ran.totals.cost.units(), 2.0 * 73 / 60, 0.01);
  EXPECT_NEAR(ran.totals.node_hours, 73.0 / 60, 0.001);
  EXPECT_NEAR(ran.totals.idle_node_hours, 10.0 / 60, 0.001);
  EXPECT_NEAR(ran.totals.startup_node_hours, 3.0 / 60, 0.001);
}

TEST(GrowthDecider, CheapestFirstGivesEachJobNodesOfItsOwn) {
  const Ran ran = RunWith(GrowthPolicy::kCheapestFirst, {Job(1, 0s, 1h), Job(1, 2h, 1h), Job(3, 2h, 1h)},
                          {Shape("s", 1, 2.0), Shape("l", 4, 6.0)});
  EXPECT_EQ(ran.totals.nodes_requested, 3);
  EXPECT_EQ(ran.Wait(1), 180);
  EXPECT_NEAR(ran.totals.cost.units(), (2.0 + 2.0 + 6.0) * 63 / 60, 0.01);
  EXPECT_EQ(ran.totals.idle_node_hours, 0);
}

TEST(GrowthDecider, NodePerJobReturnsNodesAfterTenIdleMinutes) {
  const Ran ran = RunWith(GrowthPolicy::kNodePerJob, {Job(1, 0s, 1h), Job(1, 70min, 1h)}, {Shape("s", 1, 2.0)});
  EXPECT_EQ(ran.totals.nodes_requested, 1);
  EXPECT_EQ(ran.Wait(1), 0);
  EXPECT_NEAR(ran.totals.cost.units(), 2.0 * (3 + 60 + 7 + 60 + 10) / 60, 0.01);
}

TEST(GrowthDecider, OwnNodesAreUsedFirstAndCostNothing) {
  for (const GrowthPolicy policy :
       {GrowthPolicy::kNone, GrowthPolicy::kNodePerJob, GrowthPolicy::kCheapestFirst, GrowthPolicy::kDivvy}) {
    const Ran ran = RunWith(policy, {Job(8, 0s, 1h), Job(8, 1min, 1h)}, {Shape("s", 8, 2.0)}, {}, "1x8:V100");
    EXPECT_EQ(ran.Wait(0), 0);
    EXPECT_EQ(ran.Wait(1), policy == GrowthPolicy::kNone ? 3540 : 180);
    EXPECT_EQ(ran.totals.nodes_requested, policy == GrowthPolicy::kNone ? 0 : 1);
  }
}

TEST(GrowthDecider, WaitsForItsOwnNodeThatIsFreeSooner) {
  const Ran ran =
      RunWith(GrowthPolicy::kDivvy, {Job(8, 0s, 90s), Job(8, 10s, 1h)}, {Shape("s", 8, 2.0)}, {}, "1x8:V100");
  EXPECT_EQ(ran.Wait(1), 80);
  EXPECT_EQ(ran.totals.nodes_requested, 0);
}

TEST(GrowthDecider, AGangStartsOnNodesThatCameTogether) {
  const Ran ran = RunWith(GrowthPolicy::kDivvy, {Job(16, 0s, 1h)}, {Shape("s", 8, 2.0)});
  EXPECT_EQ(ran.Wait(0), 180);
  EXPECT_EQ(ran.totals.nodes_requested, 2);
}

TEST(GrowthDecider, TheMonthlyLimitIsNeverExceeded) {
  const Ran ran =
      RunWith(GrowthPolicy::kDivvy, {Job(1, 0s, 10h)}, {Shape("s", 1, 6.0)}, {.monthly = Money(20'000'000)});
  EXPECT_EQ(ran.replayed.unfinished.size(), 1U);
  EXPECT_LE(ran.totals.cost.units(), 20);
  EXPECT_GE(ran.totals.cost.units(), 19);
}

TEST(GrowthDecider, LimitsHoldForEveryPolicy) {
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(Job(1, std::chrono::seconds(i), 20min));
  for (const GrowthPolicy policy : {GrowthPolicy::kNodePerJob, GrowthPolicy::kCheapestFirst, GrowthPolicy::kDivvy}) {
    const Ran ran = RunWith(policy, jobs, {Shape("s", 1, 2.0)}, {.nodes = 3});
    EXPECT_EQ(ran.replayed.outcomes.size(), 20U);
    EXPECT_EQ(ran.totals.most_nodes, 3);
  }
}

}  // namespace growth_decider_test
}  // namespace divvy::simulate
