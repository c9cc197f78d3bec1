#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace scheduling_cycle_test {

using std::chrono::hours;
using std::chrono::minutes;

std::vector<std::uint64_t> Started(const Plan& plan) {
  std::vector<std::uint64_t> ids;
  for (const Start& start : plan.starts) ids.push_back(start.job.value());
  return ids;
}

using Ids = std::vector<std::uint64_t>;

TEST(SchedulingCycle, SmallJobsGoFirst) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(8), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(1), At(1)), At(1));
  cluster.Put(MakeJob(cluster, 3, GpuRequest(2), At(1)), At(1));
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{2, 3}));
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(SchedulingCycle, AnEscalatedJobGoesBeforeSmallOnes) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(8), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(1), At(3599)), At(3599));
  EXPECT_EQ(Started(cluster.Decide(At(3600))), (Ids{1}));
}

TEST(SchedulingCycle, TheFirstBlockedJobReservesTheEarliestStart) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(6), At(0), hours(2)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(4), At(1), hours(1)), At(1));
  cluster.Decide(At(1));
  ASSERT_EQ(cluster.reservations().size(), 1u);
  EXPECT_EQ(cluster.reservations().front().start, At(7200));
  // It ends in time, so it is backfilled.
  cluster.Put(MakeJob(cluster, 3, GpuRequest(2), At(2), hours(1)), At(2));
  Rules fifo;
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{3}));
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(SchedulingCycle, NoJobStartsIfItWouldDelayAReservation) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  Cluster cluster = MakeCluster(1, 8, rules);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(6), At(0), hours(2)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(8), At(1), hours(1)), At(1));
  cluster.Put(MakeJob(cluster, 3, GpuRequest(1), At(2), hours(3)), At(2));
  cluster.Put(MakeJob(cluster, 4, GpuRequest(1), At(3)), At(3));
  cluster.Put(MakeJob(cluster, 5, GpuRequest(1), At(4), hours(1)), At(4));
  EXPECT_EQ(Started(cluster.Decide(At(5))), (Ids{5}));
  cluster.Finish(JobId(1), At(10));
  cluster.Finish(JobId(5), At(10));
  EXPECT_EQ(Started(cluster.Decide(At(10))), (Ids{2}));
}

TEST(SchedulingCycle, AllTasksOfAGangStartOrNone) {
  Cluster cluster = MakeCluster(4, 8);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(8, 5), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(8, 3), At(0)), At(0));
  EXPECT_EQ(Started(cluster.Decide(At(0))), (Ids{2}));
  EXPECT_EQ(cluster.running(JobId(2))->placements.size(), 3u);
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(SchedulingCycle, AGangStaysInOneRackWhereItFits) {
  Cluster cluster = MakeCluster(12, 8);
  ResourceRequest request = GpuRequest(8, 4);
  request.locality = Locality::kRack;
  request.requires_locality = true;
  cluster.Put(MakeJob(cluster, 1, GpuRequest(1), At(0)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, request, At(1)), At(1));
  cluster.Decide(At(1));
  ASSERT_NE(cluster.running(JobId(2)), nullptr);
  std::set<std::uint32_t> racks;
  for (const TaskPlacement& placed : cluster.running(JobId(2))->placements)
    racks.insert(cluster.node(placed.node).rack);
  EXPECT_EQ(racks.size(), 1u);
}

TEST(SchedulingCycle, AnArrayLeavesTheQueueElementByElement) {
  Cluster cluster = MakeCluster(1, 4);
  Job array = MakeJob(cluster, 10, GpuRequest(1), At(0));
  array.count = 6;
  cluster.Put(array, At(0));
  EXPECT_EQ(Started(cluster.Decide(At(0))), (Ids{11, 12, 13, 14}));
  cluster.Finish(JobId(12), At(1));
  EXPECT_EQ(Started(cluster.Decide(At(1))), (Ids{15}));
  EXPECT_EQ(cluster.waiting_count(), 1u);
}

TEST(SchedulingCycle, ACapBlocksItsJobsButNoOthers) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("array 10", 2);
  Job array = MakeJob(cluster, 10, GpuRequest(1), At(0));
  array.count = 6;
  array.caps = {cap};
  cluster.Put(array, At(0));
  EXPECT_EQ(cluster.Decide(At(0)).starts.size(), 2u);
  cluster.Put(MakeJob(cluster, 20, GpuRequest(2), At(1)), At(1));
  EXPECT_EQ(Started(cluster.Decide(At(1))), (Ids{20}));
  cluster.Finish(JobId(11), At(2));
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{13}));
}

TEST(SchedulingCycle, FractionsOfOneGpuAddUp) {
  Cluster cluster = MakeCluster(1, 1);
  for (std::uint64_t id = 1; id <= 3; ++id) cluster.Put(MakeJob(cluster, id, ShareRequest(4000), At(0)), At(0));
  EXPECT_EQ(Started(cluster.Decide(At(0))), (Ids{1, 2}));
}

TEST(SchedulingCycle, StrictOrderLetsNoJobOvertake) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  rules.backfill = Backfill::kNone;
  Cluster cluster = MakeCluster(1, 8, rules);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(6), At(0), hours(2)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(4), At(1)), At(1));
  cluster.Put(MakeJob(cluster, 3, GpuRequest(1), At(2), minutes(1)), At(2));
  EXPECT_EQ(Started(cluster.Decide(At(3))), (Ids{1}));
  cluster.Put(MakeJob(cluster, 4, GpuRequest(1), At(4), minutes(1)), At(4));
  EXPECT_TRUE(cluster.Decide(At(4)).starts.empty());
  cluster.Finish(JobId(1), At(5));
  EXPECT_EQ(Started(cluster.Decide(At(5))), (Ids{2, 3, 4}));
}

TEST(SchedulingCycle, AnEscalatedJobDrainsGpusWhoseEndIsUnknown) {
  Cluster cluster = MakeCluster(1, 4);
  for (std::uint64_t id = 1; id <= 4; ++id) cluster.Put(MakeJob(cluster, id, GpuRequest(1), At(0)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 5, GpuRequest(2), At(1)), At(1));
  cluster.Decide(At(1));
  EXPECT_TRUE(cluster.reservations().empty());
  cluster.Decide(At(3601));
  ASSERT_EQ(cluster.reservations().size(), 1u);
  cluster.Finish(JobId(1), At(3700));
  cluster.Put(MakeJob(cluster, 6, GpuRequest(1), At(3700)), At(3700));
  EXPECT_TRUE(cluster.Decide(At(3700)).starts.empty());
  cluster.Finish(JobId(2), At(3800));
  EXPECT_EQ(Started(cluster.Decide(At(3800))), (Ids{5}));
}

TEST(SchedulingCycle, AnElasticJobUsesGpusThatNoJobWaitsFor) {
  Cluster cluster = MakeCluster(1, 8);
  ResourceRequest request = GpuRequest(1, 2, 6);
  cluster.Put(MakeJob(cluster, 1, request, At(0)), At(0));
  const Plan plan = cluster.Decide(At(0));
  EXPECT_EQ(Started(plan), (Ids{1}));
  ASSERT_EQ(plan.growths.size(), 1u);
  EXPECT_EQ(cluster.running(JobId(1))->placements.size(), 6u);
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

}  // namespace scheduling_cycle_test
}  // namespace divvy::core
