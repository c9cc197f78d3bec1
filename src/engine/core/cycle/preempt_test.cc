#include "engine/core/cycle/preempt.h"

#include <gtest/gtest.h>

#include "engine/core/cycle/park.h"
#include "engine/core/cycle/preempt_test_world.h"

namespace divvy::core {
namespace preempt_test {

using Ids = std::vector<std::uint64_t>;

Rules Preempting() {
  Rules rules;
  rules.preempts = true;
  return rules;
}

Rules Reclaiming() {
  Rules rules;
  rules.order = QueuePolicy::kFair;
  rules.backfill = Backfill::kAnything;
  rules.reclaims = true;
  return rules;
}

Rules Moving() {
  Rules rules;
  rules.consolidates = true;
  return rules;
}

TEST(Preempt, NothingIsPreemptedUnlessARuleAllowsIt) {
  PreemptWorld world(1, 2, Rules{});
  world.Run(world.Make(1, GpuRequest(2)), {{0, AtGpus(3), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(1), 5));
  EXPECT_TRUE(world.Round(100).preemptions.empty());
}

TEST(Preempt, ALowerPriorityIsPreemptedAndThePreemptorStartsAfterItsEnd) {
  PreemptWorld world(1, 2, Preempting());
  world.Run(world.Make(1, GpuRequest(2)), {{0, AtGpus(3), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(1), 5));
  const Plan plan = world.cluster.Decide(At(100));
  EXPECT_EQ(TakenBy(plan), (Ids{1}));
  EXPECT_TRUE(plan.starts.empty());
  EXPECT_TRUE(world.cluster.running(JobId(1))->is_leaving);
  // No more is preempted while it leaves.
  EXPECT_TRUE(world.cluster.Decide(At(101)).preemptions.empty());
  world.Leave(plan, 102);
  world.Round(102);
  EXPECT_EQ(world.Running(), (Ids{2}));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(world.Round(110 + i).preemptions.empty());
  EXPECT_EQ(world.Running(), (Ids{2}));
  EXPECT_EQ(world.cluster.CheckInvariants(), "");
}

TEST(Preempt, EqualPriorityPreemptsNothing) {
  PreemptWorld world(1, 1, Preempting());
  world.Run(world.Make(1, GpuRequest(1), 5), {{0, AtGpus(1), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(1), 5));
  EXPECT_TRUE(world.Round(100).preemptions.empty());
}

TEST(Preempt, ProtectedJobsAreNeverVictims) {
  PreemptWorld world(1, 2, Preempting());
  world.Run(world.Make(1, GpuRequest(1), 0, Preemptible::kNever), {{0, AtGpus(1), 0, 0}});
  world.Run(world.Make(2, GpuRequest(1), 0), {{0, AtGpus(2), 0, 0}});
  world.Wait(world.Make(3, GpuRequest(2), 9));
  EXPECT_TRUE(world.Round(100).preemptions.empty());
  world.Wait(world.Make(4, GpuRequest(1), 8));
  EXPECT_EQ(TakenBy(world.Round(101)), (Ids{2}));
}

TEST(Preempt, AJobIsPreemptedOnlyAfterItsMinimumRuntime) {
  Rules rules = Preempting();
  rules.min_runtime = std::chrono::minutes(10);
  PreemptWorld world(1, 1, rules);
  world.Run(world.Make(1, GpuRequest(1)), {{0, AtGpus(1), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(1), 5));
  const Plan plan = world.Round(100);
  EXPECT_TRUE(plan.preemptions.empty());
  EXPECT_EQ(plan.next_wakeup, At(600));
  EXPECT_EQ(TakenBy(world.Round(600)), (Ids{1}));
}

TEST(Preempt, APreemptorWaitsForTheConfiguredTime) {
  Rules rules = Preempting();
  rules.wait_before = std::chrono::minutes(10);
  PreemptWorld world(1, 1, rules);
  world.Run(world.Make(1, GpuRequest(1)), {{0, AtGpus(1), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(1), 5));
  EXPECT_EQ(world.Round(100).next_wakeup, At(602));
  EXPECT_EQ(TakenBy(world.Round(602)), (Ids{1}));
}

TEST(Preempt, NoWakeupIsLeftWhenNothingLeavesAnyMore) {
  Rules rules;
  rules.wait_before = std::chrono::minutes(10);
  PreemptWorld world(1, 2, rules);
  world.Run(world.Make(1, GpuRequest(1)), {{0, AtGpus(1), 0, 0}});
  world.Run(world.Make(2, GpuRequest(1)), {{0, AtGpus(2), 0, 0}});
  world.Wait(world.Make(3, GpuRequest(2)));
  world.cluster.SetLeaving(JobId(1));
  world.Round(100);
  world.cluster.Finish(JobId(1), At(110));
  world.Round(110);
  EXPECT_GT(world.Round(603).next_wakeup, At(603));
}

TEST(Preempt, NoWakeupIsLeftWhenGpusAreNominatedForThePreemptor) {
  Rules rules = Preempting();
  rules.wait_before = std::chrono::minutes(10);
  PreemptWorld world(1, 1, rules);
  world.Run(world.Make(1, GpuRequest(1)), {{0, AtGpus(1), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(1)));
  EXPECT_EQ(world.Round(100).next_wakeup, At(602));
  ASSERT_EQ(RequestParks(
                world.cluster, {{JobId(1)}}, [](JobId) { return true; }, At(101))
                .size(),
            1U);
  EXPECT_GT(world.Round(602).next_wakeup, At(602));
}

TEST(Preempt, TheVictimWithTheLeastLostWorkIsChosen) {
  PreemptWorld world(1, 4, Preempting());
  world.Run(world.Make(1, GpuRequest(2)), {{0, AtGpus(3), 0, 0}}, 0);   // Lost work: 2 GPUs x 100 s.
  world.Run(world.Make(2, GpuRequest(1)), {{0, AtGpus(4), 0, 0}}, 90);  // Lost work: 10 s each.
  world.Run(world.Make(3, GpuRequest(1)), {{0, AtGpus(8), 0, 0}}, 90);
  world.Wait(world.Make(4, GpuRequest(2), 5));
  EXPECT_EQ(TakenBy(world.Round(100)), (Ids{2, 3}));
}

TEST(Preempt, AGangPreemptsForAllItsTasksOrForNone) {
  PreemptWorld world(2, 2, Preempting());
  world.Run(world.Make(1, GpuRequest(2)), {{0, AtGpus(3), 0, 0}});
  world.Run(world.Make(2, GpuRequest(2), 7), {{1, AtGpus(3), 0, 0}});
  world.Wait(world.Make(3, GpuRequest(2, 2), 5));
  EXPECT_TRUE(world.Round(100).preemptions.empty());
  world.Wait(world.Make(4, GpuRequest(2, 2), 9));
  EXPECT_EQ(TakenBy(world.Round(101)), (Ids{1, 2}));
  world.Round(102);
  EXPECT_EQ(world.Running(), (Ids{4}));
}

TEST(Preempt, ElasticJobsShrinkBeforeWholeJobsArePreempted) {
  PreemptWorld world(1, 4, Preempting());
  world.Run(world.Make(1, GpuRequest(1, 1, 3)), {{0, AtGpus(1), 0, 0}, {0, AtGpus(2), 0, 0}, {0, AtGpus(4), 0, 0}}, 0);
  world.Run(world.Make(2, GpuRequest(1)), {{0, AtGpus(8), 0, 0}}, 99);
  world.Wait(world.Make(3, GpuRequest(1), 5));
  const Plan plan = world.Round(100);
  ASSERT_EQ(plan.preemptions.size(), 1u);
  EXPECT_EQ(plan.preemptions.front().job, JobId(1));
  EXPECT_FALSE(plan.preemptions.front().is_all);
  EXPECT_EQ(plan.preemptions.front().placements.size(), 1u);
  world.Round(101);
  EXPECT_EQ(world.Running(), (Ids{1, 2, 3}));
  EXPECT_EQ(world.cluster.running(JobId(1))->placements.size(), 2u);
  EXPECT_EQ(world.cluster.CheckInvariants(), "");
}

TEST(Preempt, FreedGpusAreNominatedForThePreemptor) {
  PreemptWorld world(1, 2, Preempting());
  world.Run(world.Make(1, GpuRequest(2)), {{0, AtGpus(3), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(2), 5));
  const Plan plan = world.cluster.Decide(At(100));
  world.Wait(world.Make(3, GpuRequest(1), 5), 101);  // It is smaller, so it comes before the preemptor in the queue.
  world.cluster.Decide(At(101));
  world.Leave(plan, 102);
  world.Round(102);
  EXPECT_EQ(world.Running(), (Ids{2}));
}

TEST(Preempt, AJobThatEndsAnywayIsWaitedFor) {
  PreemptWorld world(1, 2, Preempting());
  world.Run(world.Make(1, GpuRequest(1), 9), {{0, AtGpus(1), 0, 0}});
  world.Run(world.Make(2, GpuRequest(1)), {{0, AtGpus(2), 0, 0}});
  world.cluster.SetLeaving(JobId(1));
  world.Wait(world.Make(3, GpuRequest(1), 5));
  EXPECT_TRUE(world.cluster.Decide(At(100)).preemptions.empty());
  world.cluster.Finish(JobId(1), At(101));
  EXPECT_EQ(world.cluster.Decide(At(101)).starts.size(), 1u);
}

TEST(Preempt, ANominationIsRemovedWithItsJob) {
  PreemptWorld world(1, 1, Preempting());
  world.Run(world.Make(1, GpuRequest(1)), {{0, AtGpus(1), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(1), 5));
  const Plan plan = world.cluster.Decide(At(100));
  world.cluster.Remove(JobId(2), At(101));
  world.Leave(plan, 102);
  world.Round(102);
  EXPECT_EQ(world.Running(), (Ids{1}));
  EXPECT_EQ(world.cluster.CheckInvariants(), "");
}

TEST(Reclaim, ATeamGetsItsShareFromATeamAboveItsShare) {
  PreemptWorld world(1, 4, Reclaiming());
  world.SetTeams({{2, 1}, {2, 1}});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    world.Run(world.Make(id, GpuRequest(1), 0, Preemptible::kRequeue, 1), {{0, AtGpus(1u << (id - 1)), 0, 0}});
  }
  for (std::uint64_t id = 5; id <= 7; ++id) world.Wait(world.Make(id, GpuRequest(1), 0, Preemptible::kRequeue, 2));
  const Plan plan = world.Round(100);
  EXPECT_EQ(TakenBy(plan), (Ids{3, 4}));  // The youngest, and no more than the team's share.
  for (int i = 0; i < 6; ++i) world.Round(101 + i);
  EXPECT_EQ(world.Running(), (Ids{1, 2, 5, 6}));
  EXPECT_EQ(world.cluster.CheckInvariants(), "");
}

TEST(Reclaim, NoTeamIsReducedBelowItsQuota) {
  PreemptWorld world(1, 4, Reclaiming());
  world.SetTeams({{4, 0}, {4, 1}});
  world.Run(world.Make(1, GpuRequest(4), 0, Preemptible::kRequeue, 1), {{0, AtGpus(15), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(2), 0, Preemptible::kRequeue, 2));
  EXPECT_TRUE(world.Round(100).preemptions.empty());
}

TEST(Reclaim, ATeamAboveItsShareReclaimsNothing) {
  PreemptWorld world(1, 4, Reclaiming());
  world.SetTeams({{1, 1}, {1, 1}});
  world.Run(world.Make(1, GpuRequest(2), 0, Preemptible::kRequeue, 1), {{0, AtGpus(3), 0, 0}});
  world.Run(world.Make(2, GpuRequest(2), 0, Preemptible::kRequeue, 2), {{0, AtGpus(12), 0, 0}});
  world.Wait(world.Make(3, GpuRequest(1), 0, Preemptible::kRequeue, 2));
  EXPECT_TRUE(world.Round(100).preemptions.empty());
}

TEST(Reclaim, ANonPreemptibleReclaimerMustFitIntoItsQuota) {
  PreemptWorld world(1, 4, Reclaiming());
  world.SetTeams({{1, 1}, {1, 1}});
  world.Run(world.Make(1, GpuRequest(4), 0, Preemptible::kRequeue, 1), {{0, AtGpus(15), 0, 0}});
  world.Wait(world.Make(2, GpuRequest(2), 0, Preemptible::kNever, 2));
  EXPECT_TRUE(world.Round(100).preemptions.empty());
  world.Wait(world.Make(3, GpuRequest(1), 0, Preemptible::kNever, 2));
  EXPECT_EQ(TakenBy(world.Round(101)), (Ids{1}));
}

TEST(MoveJobs, ASmallJobIsMigratedForALargeOneAndContinues) {
  PreemptWorld world(2, 2, Moving());
  world.Run(world.Make(1, GpuRequest(1), 0, Preemptible::kPause), {{0, AtGpus(1), 0, 0}});
  world.Run(world.Make(2, GpuRequest(1), 0, Preemptible::kPause), {{1, AtGpus(1), 0, 0}});
  world.Wait(world.Make(3, GpuRequest(2), 0, Preemptible::kPause));
  const Plan plan = world.Round(100);
  EXPECT_TRUE(plan.preemptions.empty());
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves.front().job, JobId(2));
  EXPECT_EQ(plan.moves.front().to.front().node, 0u);
  EXPECT_EQ(world.cluster.CheckInvariants(), "");
  // Its new place is reserved.
  world.Wait(world.Make(4, GpuRequest(1), 9, Preemptible::kPause), 101);
  world.Round(101);
  world.Round(102);
  EXPECT_EQ(world.Running(), (Ids{1, 2, 3}));
  EXPECT_EQ(world.cluster.running(JobId(2))->placements.front().node, 0u);
}

TEST(MoveJobs, JobsThatCannotContinueAreNotMigrated) {
  PreemptWorld world(2, 2, Moving());
  world.Run(world.Make(1, GpuRequest(1)), {{0, AtGpus(1), 0, 0}});
  world.Run(world.Make(2, GpuRequest(1)), {{1, AtGpus(1), 0, 0}});
  world.Wait(world.Make(3, GpuRequest(2)));
  EXPECT_TRUE(world.Round(100).moves.empty());
}

TEST(MoveJobs, AMigratedJobThatEndsByItselfLeavesNothingReserved) {
  PreemptWorld world(2, 2, Moving());
  world.Run(world.Make(1, GpuRequest(1), 0, Preemptible::kPause), {{0, AtGpus(1), 0, 0}});
  world.Run(world.Make(2, GpuRequest(1), 0, Preemptible::kPause), {{1, AtGpus(1), 0, 0}});
  world.Wait(world.Make(3, GpuRequest(2), 0, Preemptible::kPause));
  world.cluster.Decide(At(100));
  world.cluster.Finish(JobId(2), At(101));
  world.cluster.Decide(At(101));
  world.Wait(world.Make(4, GpuRequest(1), 0, Preemptible::kPause), 102);
  world.cluster.Decide(At(102));
  EXPECT_EQ(world.Running(), (Ids{1, 3, 4}));
  EXPECT_EQ(world.cluster.CheckInvariants(), "");
}

}  // namespace preempt_test
}  // namespace divvy::core
