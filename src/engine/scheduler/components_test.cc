// Heterogeneous jobs: components of different shapes that start together or not at all, on nodes of different kinds.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/scheduler/test_world.h"

namespace divvy {
namespace components_test {

using namespace std::chrono_literals;

constexpr const char* kA100 = "NVIDIA A100-SXM4-40GB";
constexpr const char* kH100 = "NVIDIA H100 80GB HBM3";

struct Kind {
  int gpus = 0;
  const char* model = kH100;
  int cpus = 16;
  std::vector<std::string> features = {};
};

/// Nodes n0, n1, ... in this order; the first is the controller's own.
struct Machines : World {
  explicit Machines(const std::vector<Kind>& kinds) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      NodeCapacity capacity;
      for (int gpu = 0; gpu < kinds[i].gpus; ++gpu) AddGpu(capacity, kinds[i].model, 80_GiB);
      capacity.cpus = kinds[i].cpus;
      capacity.memory = 64_GiB;
      NodeAttributes attributes;
      attributes.name = "n" + std::to_string(i);
      attributes.features = kinds[i].features;
      scheduler.SetNode(static_cast<NodeIndex>(i), attributes, std::move(capacity));
    }
    Check();
  }

  std::vector<StartDecision> Decide() {
    scheduler.SetPolicy(policy);
    auto decided = scheduler.Decide(now, [](JobId entry) { return entry; });
    Check();
    last_plan = decided.plan;
    return decided.plan.starts;
  }
};

Component Of(int gpus, const std::string& type = "", int nodes = 1) {
  Component one;
  one.gpus = gpus;
  one.gpu_type = type;
  one.nodes = one.tasks = nodes;
  return one;
}

WaitingEntry Job(std::uint64_t id, const Component& first, std::vector<Component> others) {
  WaitingEntry entry = World::Job(id, first.gpus);
  entry.request.gpu_type = first.gpu_type;
  entry.request.nodes = first.nodes;
  entry.request.tasks = first.tasks;
  entry.request.cpus = first.cpus;
  entry.request.others = std::move(others);
  return entry;
}

/// The nodes that a component is on, with its number of GPUs on each.
std::map<NodeIndex, int> On(const StartDecision& start, int component) {
  std::map<NodeIndex, int> on;
  for (const NodeResources& place : start.gang) {
    for (const ComponentAllocation& part : place.parts) {
      if (part.component == component) on[place.node] = part.gpus.size();
    }
  }
  return on;
}

using Places = std::map<NodeIndex, int>;

TEST(Components, EachRunsOnNodesWithItsModel) {
  Machines world({{0}, {4, kA100}, {4, kH100}, {4, kH100}});
  world.Submit(Job(1, Of(2, "a100"), {Of(3, "h100", 2)}));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(On(starts[0], 0), (Places{{1, 2}}));
  EXPECT_EQ(On(starts[0], 1), (Places{{2, 3}, {3, 3}}));
  EXPECT_EQ(starts[0].node, 1U) << "the first machine is the first component's";
  EXPECT_EQ(world.scheduler.free_count(), 4);
}

TEST(Components, AllStartTogetherOrNoneDoes) {
  Machines world({{0}, {4, kA100}, {4, kH100}});
  world.Submit(World::Job(1, 1));
  world.scheduler.Put([] {
    WaitingEntry holder = World::Job(2, 3);
    holder.request.gpu_type = "h100";
    holder.queued_at = Time(1000h);
    return holder;
  }());
  ASSERT_EQ(world.Decide().size(), 2U);
  world.Submit(Job(3, Of(2, "a100"), {Of(2, "h100")}));
  EXPECT_TRUE(world.Decide().empty()) << "two A100s are free, and one H100";
  world.scheduler.Finish(JobId(2));
  ASSERT_EQ(world.Decide().size(), 1U);
  world.scheduler.Finish(JobId(3));
  EXPECT_EQ(world.scheduler.free_count(), 7);
}

TEST(Components, ShareANodeWhereThereIsRoomForBoth) {
  Machines world({{0}, {4}, {0}});
  world.Submit(Job(1, Of(2), {Of(1)}));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  ASSERT_EQ(starts[0].gang.size(), 1U);
  ASSERT_EQ(starts[0].gang[0].parts.size(), 2U);
  const NodeResources& place = starts[0].gang[0];
  EXPECT_EQ(place.gpus, place.parts[0].gpus | place.parts[1].gpus);
  EXPECT_TRUE((place.parts[0].gpus & place.parts[1].gpus).empty());
  EXPECT_EQ(place.tasks, 2);
}

TEST(Components, RunOnASingleServerWithRoomForBoth) {
  World world;
  world.Node(4, 8);
  WaitingEntry entry = Job(1, Of(2), {Of(1), Of(0)});
  entry.request.cpus = 3;
  entry.request.others[1].cpus = 4;
  world.Submit(entry);
  auto decided = world.scheduler.Decide(world.now, [](JobId id) { return id; });
  world.Check();
  ASSERT_EQ(decided.plan.starts.size(), 1U);
  EXPECT_EQ(world.scheduler.cpus_claimed(), 7);
  EXPECT_EQ(world.scheduler.free_count(), 1);
  world.scheduler.Finish(JobId(1));
  world.Check();
  EXPECT_EQ(world.scheduler.cpus_claimed(), 0);
}

TEST(Components, NodesOfOneComponentAreDistinct) {
  Machines world({{0}, {8}, {8}});
  world.Submit(Job(1, Of(1, "", 2), {Of(1, "", 2)}));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(On(starts[0], 0), (Places{{1, 1}, {2, 1}}));
  EXPECT_EQ(On(starts[0], 1), (Places{{1, 1}, {2, 1}}));
}

TEST(Components, AFlexibleComponentLeavesTheGpusThatTheOtherNeeds) {
  Machines world({{0}, {1, kA100}, {1, kH100}});
  // Placed alone, the first component would take the H100.
  world.Submit(Job(1, Of(1), {Of(1, "h100")}));
  auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(On(starts[0], 0), (Places{{1, 1}}));
  EXPECT_EQ(On(starts[0], 1), (Places{{2, 1}}));
}

// Two A100s and two H100s, each on a node of its own. A component of two nodes is on one model.
TEST(Components, EachComponentUsesOneModelAndTheyMayDiffer) {
  Machines world({{0}, {1, kA100}, {1, kH100}, {1, kA100}, {1, kH100}});
  world.Submit(Job(1, Of(1, "", 2), {Of(1, "", 2)}));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  const std::set<Places> both = {On(starts[0], 0), On(starts[0], 1)};
  EXPECT_EQ(both, (std::set<Places>{{{1, 1}, {3, 1}}, {{2, 1}, {4, 1}}}));
}

TEST(Components, ACapCountsAllComponents) {
  Machines world({{0}, {8}});
  world.scheduler.SetGroupGpuLimit("user ada", 4);
  WaitingEntry entry = Job(1, Of(2), {Of(3)});
  entry.groups = {"user ada"};
  world.Submit(entry);
  EXPECT_TRUE(world.Decide().empty());
  world.scheduler.SetGroupGpuLimit("user ada", 5);
  EXPECT_EQ(world.Decide().size(), 1U);
  EXPECT_EQ(world.scheduler.group_gpus("user ada"), 5);
}

TEST(Components, WhyNamesTheComponentThatDoesNotFit) {
  Machines world({{0}, {4, kA100}, {4, kH100}});
  WaitingEntry holder = World::Job(1, 4);
  holder.request.gpu_type = "h100";
  world.Submit(holder);
  world.Decide();
  world.Submit(Job(2, Of(2, "a100"), {Of(2, "h100")}));
  EXPECT_TRUE(world.Decide().empty());
  const core::Explanation why = Explain(world.scheduler, JobId(2), world.now);
  ASSERT_EQ(why.blockers.size(), 1U);
  EXPECT_EQ(why.blockers[0].text.find("component 1 needs 2 GPUs"), 0U) << why.blockers[0].text;
  ASSERT_EQ(why.blockers[0].holders.size(), 1U);
  EXPECT_EQ(why.blockers[0].holders[0].job, JobId(1));
}

TEST(Components, WhyNamesHoldersWithoutATimeLimitButWithAPrediction) {
  Machines world({{0}, {4, kH100}});
  WaitingEntry holder = World::Job(1, 4);
  holder.predicted = std::chrono::hours(1);
  world.Submit(holder);
  ASSERT_EQ(world.Decide().size(), 1U);
  world.Submit(World::Job(2, 2));
  EXPECT_TRUE(world.Decide().empty());
  const core::Explanation why = Explain(world.scheduler, JobId(2), world.now);
  ASSERT_EQ(why.blockers.size(), 1U);
  ASSERT_EQ(why.blockers[0].holders.size(), 1U) << why.blockers[0].text;
  EXPECT_EQ(why.blockers[0].holders[0].job, JobId(1));
}

TEST(Components, WhyNamesTheHoldersGpusOfTheMissingModel) {
  Machines world({{0}, {4, kA100}, {4, kH100}});
  world.Submit(Job(1, Of(4, "a100"), {Of(3, "h100")}));  // Its first component holds nothing that job 2 could use.
  ASSERT_EQ(world.Decide().size(), 1U);
  world.Submit(Job(2, Of(1, "h100"), {Of(2, "h100")}));
  EXPECT_TRUE(world.Decide().empty());
  const core::Explanation why = Explain(world.scheduler, JobId(2), world.now);
  ASSERT_EQ(why.blockers.size(), 1U);
  ASSERT_EQ(why.blockers[0].holders.size(), 1U) << why.blockers[0].text;
  EXPECT_EQ(why.blockers[0].holders[0].job, JobId(1));
  EXPECT_EQ(why.blockers[0].holders[0].placements.front().node, 2U);
  EXPECT_EQ(core::GpusOf(why.blockers[0].holders[0].placements).size(), 3);
}

TEST(Components, WhyNamesHoldersOfWhatAllComponentsTogetherLack) {
  Machines world({{0}, {4, kH100}});
  world.Submit(World::Job(1, 2));
  ASSERT_EQ(world.Decide().size(), 1U);
  world.Submit(Job(2, Of(2), {Of(1)}));
  EXPECT_TRUE(world.Decide().empty());
  const core::Explanation why = Explain(world.scheduler, JobId(2), world.now);
  ASSERT_EQ(why.blockers.size(), 1U);
  EXPECT_EQ(why.blockers[0].text, "each of its components fits alone, but not all of them at once");
  ASSERT_EQ(why.blockers[0].holders.size(), 1U);
  EXPECT_EQ(why.blockers[0].holders[0].job, JobId(1));
}

TEST(Components, ComponentsThatNeverFitTogetherAreRefused) {
  Machines world({{0}, {4, kA100}, {4, kH100}});
  const auto check = [&](const WaitingEntry& entry) { return CheckFeasible(world.scheduler, entry.request); };
  EXPECT_TRUE(check(Job(1, Of(4, "a100"), {Of(4, "h100")})));
  const Status alone = check(Job(1, Of(4, "a100"), {Of(5, "h100")}));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message.find("component 1 asks for 5 GPUs"), std::string::npos) << alone.error().message;
  const Status together = check(Job(1, Of(3), {Of(3), Of(1)}));
  EXPECT_TRUE(together) << "3 on each, and 1 beside";
  const Status too_many = check(Job(1, Of(3), {Of(3), Of(2)}));
  ASSERT_FALSE(too_many);
  EXPECT_NE(too_many.error().message.find("no room for all of them at once"), std::string::npos)
      << too_many.error().message;
}

// 44 + 14 + 3, 34 + 13 + 8 + 6 and 22 + 12 + 12 + 11 + 4 cores fill three nodes with 61 each.
// The search does not find that solution within its limit of tries.
TEST(Components, AreNotRefusedIfOnlyTheLimitedSearchFails) {
  Machines world({{0, kH100, 61}, {0, kH100, 61}, {0, kH100, 61}});
  const auto with = [](const std::vector<int>& cpus) {
    WaitingEntry job = Job(1, Of(0), std::vector<Component>(cpus.size() - 1));
    job.request.cpus = cpus.front();
    for (std::size_t i = 1; i < cpus.size(); ++i) job.request.others[i - 1].cpus = cpus[i];
    return job.request;
  };
  const Status fits = CheckFeasible(world.scheduler, with({44, 34, 22, 14, 13, 12, 12, 11, 8, 6, 4, 3}));
  EXPECT_TRUE(fits) << fits.error().message;
  for (const std::vector<int>& never : {std::vector{40, 40, 40, 40}, {44, 34, 22, 14, 13, 12, 12, 11, 8, 6, 4, 4}}) {
    const Status refused = CheckFeasible(world.scheduler, with(never));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("no room for all of them at once"), std::string::npos);
  }
}

TEST(Components, ARunningJobIsAdoptedUnchanged) {
  Machines before({{0}, {4, kA100}, {4, kH100}});
  before.Submit(Job(1, Of(2, "a100"), {Of(3, "h100"), Of(1)}));
  const auto starts = before.Decide();
  ASSERT_EQ(starts.size(), 1U);
  const RunningJob job = *before.scheduler.running(JobId(1));
  Machines after({{0}, {4, kA100}, {4, kH100}});
  after.scheduler.Adopt(job);
  after.Check();
  EXPECT_EQ(after.scheduler.free_count(), 2);
  after.scheduler.Finish(JobId(1));
  after.Check();
  EXPECT_EQ(after.scheduler.free_count(), 8);
}

TEST(Components, AReservationIsKeptUntilTheHoldersHaveEnded) {
  Machines world({{0}, {2, kA100}, {2, kH100}});
  world.policy.order = QueuePolicy::kFifo;
  WaitingEntry holder = World::Job(1, 2, 1h);
  holder.request.gpu_type = "h100";
  world.Submit(holder);
  ASSERT_EQ(world.Decide().size(), 1U);
  world.Submit(Job(2, Of(2, "a100"), {Of(2, "h100")}));
  EXPECT_TRUE(world.Decide().empty());
  // It would run longer than an hour and delay the other job.
  WaitingEntry other = World::Job(3, 2, 5h);
  other.request.gpu_type = "a100";
  world.Submit(other);
  world.now += 10min;
  EXPECT_TRUE(world.Decide().empty());
  ASSERT_EQ(world.last_plan.reservations.size(), 1U);
  EXPECT_EQ(world.last_plan.reservations[0].entry, JobId(2));
  EXPECT_EQ(world.last_plan.reservations[0].start, Time(1000h) + 1h);
  world.now = Time(1000h) + 1h;
  world.scheduler.Finish(JobId(1));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].entry, JobId(2));
}

TEST(Components, WithoutAKnownEndTheReservedGpusAreDrained) {
  Machines world({{0}, {2, kA100}, {2, kH100}});
  WaitingEntry holder = World::Job(1, 1);
  holder.request.gpu_type = "h100";
  world.Submit(holder);
  ASSERT_EQ(world.Decide().size(), 1U);
  world.Submit(Job(2, Of(2, "a100"), {Of(2, "h100")}));
  EXPECT_TRUE(world.Decide().empty());
  WaitingEntry other = World::Job(3, 1);
  other.queued_at = world.now + 1s;
  world.Submit(other);
  world.now += 48h;
  EXPECT_TRUE(world.Decide().empty()) << "what is free is kept for job 2";
  world.scheduler.Finish(JobId(1));
  const auto starts = world.Decide();
  ASSERT_GE(starts.size(), 1U);
  EXPECT_EQ(starts[0].entry, JobId(2));
}

TEST(Components, PreemptAndArePreemptedAsAWhole) {
  Machines world({{0}, {2, kA100}, {2, kH100}});
  world.policy.preemption.preempts = true;
  world.policy.preemption.min_runtime = 0s;
  world.policy.preemption.wait_before = 0s;
  WaitingEntry low = Job(1, Of(1, "a100"), {Of(2, "h100")});
  low.preemptible = Preemptible::kRequeue;
  world.Submit(low);
  ASSERT_EQ(world.Decide().size(), 1U);
  world.now += 1h;
  WaitingEntry high = Job(2, Of(2, "a100"), {Of(1, "h100")});
  high.priority = 10;
  world.Submit(high);
  world.Decide();
  ASSERT_EQ(world.last_plan.preemptions.size(), 1U);
  EXPECT_EQ(world.last_plan.preemptions[0].job, JobId(1));
  EXPECT_EQ(world.last_plan.preemptions[0].preemptor, JobId(2));
  EXPECT_TRUE(world.last_plan.starts.empty()) << "what was taken is not free yet";
  world.scheduler.Finish(JobId(1));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(On(starts[0], 0), (Places{{1, 2}}));
  EXPECT_EQ(On(starts[0], 1), (Places{{2, 1}}));
}

}  // namespace components_test
}  // namespace divvy
