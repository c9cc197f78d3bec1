#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/core/test_world.h"

namespace divvy::core {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

std::vector<std::uint64_t> Started(const Plan& plan) {
  std::vector<std::uint64_t> ids;
  for (const Start& start : plan.starts) ids.push_back(start.job.value());
  return ids;
}

using Ids = std::vector<std::uint64_t>;

TEST(Pass, SmallJobsGoFirst) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(MakeJob(cluster, 1, GpuAsk(8), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuAsk(1), At(1)), At(1));
  cluster.Put(MakeJob(cluster, 3, GpuAsk(2), At(1)), At(1));
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{2, 3}));
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(Pass, AnEscalatedJobGoesBeforeSmallOnes) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(MakeJob(cluster, 1, GpuAsk(8), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuAsk(1), At(3599)), At(3599));
  EXPECT_EQ(Started(cluster.Decide(At(3600))), (Ids{1}));
}

TEST(Pass, TheFirstBlockedJobHoldsTheEarliestStart) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(MakeJob(cluster, 1, GpuAsk(6), At(0), hours(2)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, GpuAsk(4), At(1), hours(1)), At(1));
  cluster.Decide(At(1));
  ASSERT_EQ(cluster.promises().size(), 1u);
  EXPECT_EQ(cluster.promises().front().start, At(7200));
  // Ends in time: starts beside it.
  cluster.Put(MakeJob(cluster, 3, GpuAsk(2), At(2), hours(1)), At(2));
  Rules fifo;
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{3}));
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(Pass, NobodyStartsWhoWouldPushBackAReservation) {
  Rules rules;
  rules.order = Order::kFifo;
  Cluster cluster = MakeCluster(1, 8, rules);
  cluster.Put(MakeJob(cluster, 1, GpuAsk(6), At(0), hours(2)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, GpuAsk(8), At(1), hours(1)), At(1));
  cluster.Put(MakeJob(cluster, 3, GpuAsk(1), At(2), hours(3)), At(2));
  cluster.Put(MakeJob(cluster, 4, GpuAsk(1), At(3)), At(3));
  cluster.Put(MakeJob(cluster, 5, GpuAsk(1), At(4), hours(1)), At(4));
  EXPECT_EQ(Started(cluster.Decide(At(5))), (Ids{5}));
  cluster.Finish(JobId(1), At(10));
  cluster.Finish(JobId(5), At(10));
  EXPECT_EQ(Started(cluster.Decide(At(10))), (Ids{2}));
}

TEST(Pass, AGangStartsWholeOrNotAtAll) {
  Cluster cluster = MakeCluster(4, 8);
  cluster.Put(MakeJob(cluster, 1, GpuAsk(8, 5), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuAsk(8, 3), At(0)), At(0));
  EXPECT_EQ(Started(cluster.Decide(At(0))), (Ids{2}));
  EXPECT_EQ(cluster.running(JobId(2))->pieces.size(), 3u);
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(Pass, AGangStaysInItsRackWhereItFits) {
  Cluster cluster = MakeCluster(12, 8);
  Ask ask = GpuAsk(8, 4);
  ask.together = Together::kRack;
  ask.requires_together = true;
  cluster.Put(MakeJob(cluster, 1, GpuAsk(1), At(0)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, ask, At(1)), At(1));
  cluster.Decide(At(1));
  ASSERT_NE(cluster.running(JobId(2)), nullptr);
  std::set<std::uint32_t> racks;
  for (const Piece& piece : cluster.running(JobId(2))->pieces) racks.insert(cluster.node(piece.node).rack);
  EXPECT_EQ(racks.size(), 1u);
}

TEST(Pass, AnArrayLeavesMemberByMember) {
  Cluster cluster = MakeCluster(1, 4);
  Job array = MakeJob(cluster, 10, GpuAsk(1), At(0));
  array.count = 6;
  cluster.Put(array, At(0));
  EXPECT_EQ(Started(cluster.Decide(At(0))), (Ids{11, 12, 13, 14}));
  cluster.Finish(JobId(12), At(1));
  EXPECT_EQ(Started(cluster.Decide(At(1))), (Ids{15}));
  EXPECT_EQ(cluster.waiting_count(), 1u);
}

TEST(Pass, ACapHoldsBackWithoutHoldingUpOthers) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("array 10", 2);
  Job array = MakeJob(cluster, 10, GpuAsk(1), At(0));
  array.count = 6;
  array.caps = {cap};
  cluster.Put(array, At(0));
  EXPECT_EQ(cluster.Decide(At(0)).starts.size(), 2u);
  cluster.Put(MakeJob(cluster, 20, GpuAsk(2), At(1)), At(1));
  EXPECT_EQ(Started(cluster.Decide(At(1))), (Ids{20}));
  cluster.Finish(JobId(11), At(2));
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{13}));
}

TEST(Pass, SharesOfOneGpuAddUp) {
  Cluster cluster = MakeCluster(1, 1);
  for (std::uint64_t id = 1; id <= 3; ++id) cluster.Put(MakeJob(cluster, id, ShareAsk(400), At(0)), At(0));
  EXPECT_EQ(Started(cluster.Decide(At(0))), (Ids{1, 2}));
}

TEST(Pass, StrictOrderLetsNobodyPass) {
  Rules rules;
  rules.order = Order::kFifo;
  rules.backfill = Backfill::kNone;
  Cluster cluster = MakeCluster(1, 8, rules);
  cluster.Put(MakeJob(cluster, 1, GpuAsk(6), At(0), hours(2)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuAsk(4), At(1)), At(1));
  cluster.Put(MakeJob(cluster, 3, GpuAsk(1), At(2), minutes(1)), At(2));
  EXPECT_EQ(Started(cluster.Decide(At(3))), (Ids{1}));
  cluster.Put(MakeJob(cluster, 4, GpuAsk(1), At(4), minutes(1)), At(4));
  EXPECT_TRUE(cluster.Decide(At(4)).starts.empty());
  cluster.Finish(JobId(1), At(5));
  EXPECT_EQ(Started(cluster.Decide(At(5))), (Ids{2, 3, 4}));
}

TEST(Pass, AnEscalatedJobDrainsWhereNoEndIsKnown) {
  Cluster cluster = MakeCluster(1, 4);
  for (std::uint64_t id = 1; id <= 4; ++id) cluster.Put(MakeJob(cluster, id, GpuAsk(1), At(0)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 5, GpuAsk(2), At(1)), At(1));
  cluster.Decide(At(1));
  EXPECT_TRUE(cluster.promises().empty());
  cluster.Decide(At(3601));
  ASSERT_EQ(cluster.promises().size(), 1u);
  cluster.Finish(JobId(1), At(3700));
  cluster.Put(MakeJob(cluster, 6, GpuAsk(1), At(3700)), At(3700));
  EXPECT_TRUE(cluster.Decide(At(3700)).starts.empty());
  cluster.Finish(JobId(2), At(3800));
  EXPECT_EQ(Started(cluster.Decide(At(3800))), (Ids{5}));
}

TEST(Pass, AnElasticJobTakesWhatNobodyWaitsFor) {
  Cluster cluster = MakeCluster(1, 8);
  Ask ask = GpuAsk(1, 2, 6);
  cluster.Put(MakeJob(cluster, 1, ask, At(0)), At(0));
  const Plan plan = cluster.Decide(At(0));
  EXPECT_EQ(Started(plan), (Ids{1}));
  ASSERT_EQ(plan.growths.size(), 1u);
  EXPECT_EQ(cluster.running(JobId(1))->pieces.size(), 6u);
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

// Random histories: invariants hold, a second look changes nothing, promises are not pushed back while nobody of higher
// order arrives, and everything ends.
class RandomHistory : public testing::TestWithParam<int> {};

TEST_P(RandomHistory, KeepsItsInvariantsAndEnds) {
  for (int seed = GetParam() * 40; seed < GetParam() * 40 + 40; ++seed) {
    Draws draws(static_cast<std::uint64_t>(seed));
    Rules rules;
    rules.order = static_cast<Order>(draws.Below(4));
    rules.escalate_after = minutes(1 + draws.Below(60));
    const int nodes = 1 + draws.Below(6);
    Cluster cluster = MakeCluster(nodes, 1 << draws.Below(4), rules);
    if (draws.Below(2) == 0) cluster.SetScorer(placement::MakeScorer("pack", {}, 0, {}));
    const CapIndex cap = cluster.AddCap("group", 1 + draws.Below(4));
    std::vector<Ask> asks;
    for (int i = 0; i < 6; ++i) {
      Ask ask = draws.Below(4) == 0 ? ShareAsk(100 * (1 + draws.Below(9)))
                                    : GpuAsk(draws.Below(5), 1 + (draws.Below(3) == 0 ? draws.Below(3) : 0));
      if (draws.Below(3) == 0) ask.together = static_cast<Together>(draws.Below(4));
      ask.requires_together = draws.Below(3) == 0;
      if (draws.Below(5) == 0) ask.groups.front().most += 2;
      asks.push_back(ask);
    }
    std::map<JobId, Time> ends;
    std::uint64_t next_id = 1;
    std::set<std::uint64_t> waiting;
    int now = 0;
    const auto apply = [&](const Plan& plan) {
      for (const Start& start : plan.starts) {
        const core::Run* run = cluster.running(start.job);
        Time end = At(now + 1 + draws.Below(4000));
        if (run->end != kNever && draws.Below(4) != 0) end = std::min(end, run->end);
        ends[start.job] = end;
        if (!cluster.is_waiting(start.entry)) waiting.erase(start.entry.value());
      }
    };
    for (int step = 0; step < 150; ++step) {
      now += draws.Below(300);
      for (auto at = ends.begin(); at != ends.end();) {
        if (at->second > At(now)) {
          ++at;
          continue;
        }
        cluster.Finish(at->first, At(now));
        at = ends.erase(at);
      }
      const int arrivals = draws.Below(4);
      for (int i = 0; i < arrivals; ++i) {
        Job job = MakeJob(cluster, next_id, asks[static_cast<std::size_t>(draws.Below(6))], At(now),
                          draws.Below(2) == 0 ? Duration(0) : Duration(minutes(1 + draws.Below(90))));
        job.priority = draws.Below(10) == 0 ? draws.Below(3) : 0;
        if (draws.Below(8) == 0) job.begin = At(now + draws.Below(900));
        if (draws.Below(6) == 0) job.caps = {cap};
        if (draws.Below(6) == 0) job.count = static_cast<std::uint32_t>(1 + draws.Below(5));
        if (draws.Below(4) == 0) job.predicted = minutes(1 + draws.Below(50));
        waiting.insert(next_id);
        next_id += job.count + 1;
        cluster.Put(job, At(now));
      }
      if (draws.Below(12) == 0 && !waiting.empty()) {
        const std::uint64_t id = *waiting.begin();
        cluster.Remove(JobId(id), At(now));
        waiting.erase(id);
      }
      if (draws.Below(20) == 0) {
        cluster.SetUsable(static_cast<NodeIndex>(draws.Below(nodes)), static_cast<GpuMask>(draws.Next()), draws.Below(3) != 0);
      }
      apply(cluster.Decide(At(now)));
      ASSERT_EQ(cluster.CheckInvariants(), "") << "seed " << seed << " step " << step;
      const Plan again = cluster.Decide(At(now));
      ASSERT_TRUE(again.starts.empty()) << "seed " << seed << " step " << step;
      Cluster copy = cluster.Copy();
      const Plan anew = copy.DecideAnew(At(now));
      ASSERT_EQ(Started(anew), Ids()) << "a full look starts what changes alone did not show: seed " << seed << " step " << step;
    }
    for (NodeIndex node = 0; node < cluster.node_count(); ++node) cluster.SetUsable(node, GpuMask(0xffff), true);
    for (int step = 0; step < 4000; ++step) {
      now += 100;
      for (auto at = ends.begin(); at != ends.end();) {
        if (at->second > At(now)) {
          ++at;
          continue;
        }
        cluster.Finish(at->first, At(now));
        at = ends.erase(at);
      }
      apply(cluster.Decide(At(now)));
      if (ends.empty()) break;
    }
    EXPECT_TRUE(ends.empty());
    EXPECT_EQ(cluster.running_count(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomHistory, testing::Range(0, 5));

}  // namespace
}  // namespace divvy::core
