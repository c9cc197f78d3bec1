#include "engine/cluster.h"

#include <gtest/gtest.h>

#include "engine/engine_test_world.h"
#include "engine/queue.h"

namespace divvy {
namespace {

TEST(Cluster, EqualJobsAreOneClass) {
  World world;
  world.Node(8);
  for (std::uint64_t id = 1; id <= 1000; ++id) world.cluster.Put(World::Job(id, 1));
  world.cluster.Put(World::Job(1001, 2));
  EXPECT_EQ(world.cluster.queue().classes.size(), 2u);
  EXPECT_EQ(world.cluster.waiting_count(), 1001u);
  world.Check();
}

TEST(Cluster, AnArrayOfAMillionIsOneEntry) {
  World world;
  world.Node(8);
  WaitingEntry entry = World::Job(1, 1);
  entry.count = 1'000'000;
  world.Submit(entry);
  EXPECT_EQ(world.Pass().size(), 8u);
  EXPECT_EQ(world.cluster.waiting_count(), 999'992u);
  EXPECT_EQ(world.cluster.waiting(JobId(1))->count, 999'992u);
}

TEST(Cluster, PuttingAnEntryAgainReplacesIt) {
  World world;
  world.Node(4);
  world.Submit(World::Job(1, 1));
  WaitingEntry changed = World::Job(1, 3);
  changed.priority = 7;
  changed.count = 2;
  world.Submit(changed);
  EXPECT_EQ(world.cluster.waiting_count(), 2u);
  EXPECT_EQ(world.cluster.waiting(JobId(1))->request.gpus, 3);
  EXPECT_EQ(world.cluster.queue().classes.size(), 1u);
}

TEST(Cluster, AGpuHasItsOwnerUntilTheJobEnds) {
  World world;
  world.Node(2);
  world.Submit(World::Job(1, 1));
  world.Pass();
  EXPECT_EQ(world.cluster.owner(0), JobId(1));
  EXPECT_EQ(world.cluster.owner(1), std::nullopt);
  world.cluster.SetAvailability(0, {.is_restricted = true, .fault = "", .unmanaged = ""});
  EXPECT_EQ(world.cluster.owner(0), JobId(1));
  EXPECT_EQ(world.cluster.free(), GpuSet::Of({1}));
  world.cluster.Finish(JobId(1));
  EXPECT_EQ(world.cluster.owner(0), std::nullopt);
  EXPECT_EQ(world.cluster.free(), GpuSet::Of({1}));
  world.Check();
}

TEST(Cluster, ACapIsForgottenWithTheLastThatRefersToIt) {
  World world;
  world.Node(2);
  world.cluster.SetGroupLimit("array 1", 1);
  WaitingEntry entry = World::Job(1, 1);
  entry.groups = {"array 1", "array 1"};
  world.Submit(entry);
  world.Pass();
  EXPECT_EQ(world.cluster.group_running("array 1"), 1);
  world.cluster.SetGroupLimit("array 1", 0);
  EXPECT_EQ(world.cluster.group_running("array 1"), 1);
  world.cluster.Finish(JobId(1));
  EXPECT_EQ(world.cluster.group_running("array 1"), 0);
  world.Check();
}

TEST(Cluster, GpusThatAppearLaterServeWhoAlreadyWaits) {
  World world;
  world.Node(1);
  world.Submit(World::Job(1, 2));
  EXPECT_TRUE(world.Pass().empty());
  world.Node(2);
  world.Check();
  EXPECT_EQ(world.Pass().size(), 1u);
}

TEST(Cluster, WakesForABeginTimeAndForAnEscalation) {
  World world;
  world.Node(1);
  world.Submit(World::Job(1, 1));
  world.Pass();
  EXPECT_EQ(Schedule(world.cluster, world.policy, world.now).next_wakeup, kNever);
  world.Submit(World::Job(2, 1));
  EXPECT_EQ(Schedule(world.cluster, world.policy, world.now).next_wakeup, world.now + world.policy.escalate_after);
  WaitingEntry later = World::Job(3, 1);
  later.begin = world.now + std::chrono::minutes(5);
  world.Submit(later);
  EXPECT_EQ(Schedule(world.cluster, world.policy, world.now).next_wakeup, later.begin);
}

TEST(Cluster, AsksOfWhatDoesNotWaitAreAnswered) {
  World world;
  world.Node(1);
  EXPECT_FALSE(Explain(world.cluster, world.policy, JobId(9), world.now).is_waiting);
  EXPECT_TRUE(QueueOrder(world.cluster, world.policy, world.now, 10).empty());
}

TEST(Cluster, TheQueueIsCutWhereAsked) {
  World world;
  world.Node(1);
  for (std::uint64_t id = 1; id <= 5; ++id) world.Submit(World::Job(id, id % 2 == 0 ? 1 : 2));
  EXPECT_EQ(QueueOrder(world.cluster, world.policy, world.now, 3), (std::vector<JobId>{JobId(2), JobId(4), JobId(1)}));
}

}  // namespace
}  // namespace divvy
