// Pools: each has a queue and a queue policy of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/core/explain/explain.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace pools_test {

using std::chrono::hours;
using std::chrono::minutes;

PoolRules Ordered(QueuePolicy order, int tier = 0) {
  PoolRules rules;
  rules.order = order;
  rules.tier = tier;
  return rules;
}

void AddNodes(Cluster& cluster, int count, int gpus, int node_class) {
  for (int i = 0; i < count; ++i) {
    NodeFacts facts = PlainNode(i, gpus);
    facts.node_class = node_class;
    cluster.AddNode(facts);
  }
}

ResourceRequest PoolRequest(int gpus, PoolIndex pool, int node_class, int tasks = 1) {
  ResourceRequest request = GpuRequest(gpus, tasks);
  request.pool = pool;
  request.groups.front().alternatives.front().models = placement::ModelSet{1} << node_class;
  return request;
}

std::vector<std::uint64_t> Started(const Plan& plan) {
  std::vector<std::uint64_t> ids;
  for (const Start& start : plan.starts) ids.push_back(start.job.value());
  return ids;
}

TEST(Pools, EachPoolHasItsOwnQueuePolicy) {
  Cluster cluster{Rules()};
  AddNodes(cluster, 1, 4, 0);
  AddNodes(cluster, 1, 4, 1);
  const PoolIndex fifo = cluster.AddPool(Ordered(QueuePolicy::kFifo));
  const PoolIndex small = cluster.AddPool(Ordered(QueuePolicy::kSmallFirst));
  cluster.Put(MakeJob(cluster, 1, PoolRequest(3, fifo, 0), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, PoolRequest(2, fifo, 0), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 3, PoolRequest(3, small, 1), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 4, PoolRequest(2, small, 1), At(0)), At(0));
  std::vector<std::uint64_t> started = Started(cluster.Decide(At(0)));
  std::sort(started.begin(), started.end());
  EXPECT_EQ(started, (std::vector<std::uint64_t>{1, 4}));
  EXPECT_EQ(Explain(cluster, JobId(2), At(0)).key, "priority 0, waiting 0 s");
  EXPECT_EQ(Explain(cluster, JobId(3), At(0)).key, "priority 0, 3 GPUs, waiting 0 s");
}

TEST(Pools, TheFirstBlockedJobOfEachPoolHasABackfillReservation) {
  Cluster cluster{Rules()};
  AddNodes(cluster, 1, 2, 0);
  AddNodes(cluster, 1, 2, 1);
  const PoolIndex a = cluster.AddPool(Ordered(QueuePolicy::kFifo));
  const PoolIndex b = cluster.AddPool(Ordered(QueuePolicy::kFifo));
  cluster.Put(MakeJob(cluster, 1, PoolRequest(1, a, 0), At(0), hours(1)), At(0));
  cluster.Put(MakeJob(cluster, 2, PoolRequest(1, b, 1), At(0), hours(2)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 3, PoolRequest(2, a, 0), At(1), hours(1)), At(1));
  cluster.Put(MakeJob(cluster, 4, PoolRequest(2, b, 1), At(1), hours(1)), At(1));
  cluster.Put(MakeJob(cluster, 5, PoolRequest(1, b, 1), At(2), hours(3)), At(2));
  EXPECT_TRUE(cluster.Decide(At(2)).starts.empty()) << "it would run past the start of 4";
  std::map<std::uint64_t, Time> reserved_starts;
  for (const BackfillReservation& reservation : cluster.reservations())
    reserved_starts[reservation.entry.value()] = reservation.start;
  EXPECT_EQ(reserved_starts, (std::map<std::uint64_t, Time>{{3, At(3600)}, {4, At(7200)}}));
}

TEST(Pools, OnSharedNodesThePoolOfTheHigherTierGoesFirst) {
  Cluster cluster{Rules()};
  AddNodes(cluster, 1, 1, 0);
  const PoolIndex low = cluster.AddPool(Ordered(QueuePolicy::kFifo));
  const PoolIndex high = cluster.AddPool(Ordered(QueuePolicy::kShortest, 1));
  cluster.Put(MakeJob(cluster, 1, PoolRequest(1, low, 0), At(0), minutes(1)), At(0));
  cluster.Put(MakeJob(cluster, 2, PoolRequest(1, high, 0), At(1), hours(9)), At(1));
  EXPECT_EQ(Started(cluster.Decide(At(1))), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(Explain(cluster, JobId(1), At(1)).position, 1u);
}

TEST(Pools, StrictOrderAppliesWithinEachPool) {
  Rules rules;
  rules.backfill = Backfill::kNone;
  Cluster cluster(rules);
  AddNodes(cluster, 1, 2, 0);
  AddNodes(cluster, 1, 2, 1);
  const PoolIndex a = cluster.AddPool(Ordered(QueuePolicy::kFifo));
  const PoolIndex b = cluster.AddPool(Ordered(QueuePolicy::kFifo));
  cluster.Put(MakeJob(cluster, 1, PoolRequest(1, a, 0), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, PoolRequest(2, a, 0), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 3, PoolRequest(1, a, 0), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 4, PoolRequest(1, b, 1), At(0)), At(0));
  EXPECT_EQ(Started(cluster.Decide(At(0))), (std::vector<std::uint64_t>{1, 4}));
}

TEST(Pools, AJobWithoutGpusStaysOnTheNodesOfItsPool) {
  Cluster cluster{Rules()};
  AddNodes(cluster, 1, 1, 0);
  AddNodes(cluster, 1, 1, 1);
  const PoolIndex pool = cluster.AddPool(Ordered(QueuePolicy::kFifo));
  cluster.Put(MakeJob(cluster, 1, PoolRequest(0, pool, 1), At(0)), At(0));
  const Plan plan = cluster.Decide(At(0));
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts[0].placements[0].node, 1u);
}

TEST(Pools, AQueuePolicyCanBeChangedWhileJobsWait) {
  Cluster cluster{Rules()};
  AddNodes(cluster, 1, 1, 0);
  const PoolIndex pool = cluster.AddPool(Ordered(QueuePolicy::kFifo));
  cluster.Put(MakeJob(cluster, 1, PoolRequest(1, pool, 0), At(0), hours(9)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, PoolRequest(1, pool, 0), At(1), hours(9)), At(1));
  cluster.Put(MakeJob(cluster, 3, PoolRequest(1, pool, 0), At(2), minutes(1)), At(2));
  cluster.Decide(At(2));
  cluster.SetPool(pool, Ordered(QueuePolicy::kShortest));
  cluster.Finish(JobId(1), At(3));
  EXPECT_EQ(Started(cluster.Decide(At(3))), (std::vector<std::uint64_t>{3}));
}

// Two pools of a cluster that share nothing behave like two clusters.
class Twins {
 public:
  explicit Twins(std::uint64_t seed) : draws_(seed), together_{RulesOf(QueuePolicy::kSmallFirst)} {
    for (int i = 0; i < 2; ++i) {
      const QueuePolicy order = static_cast<QueuePolicy>(draws_.Below(4));
      const int nodes = 1 + draws_.Below(3);
      const int gpus = 1 << draws_.Below(4);
      apart_.emplace_back(RulesOf(order));
      AddNodes(apart_.back(), nodes, gpus, i);
      AddNodes(together_, nodes, gpus, i);
      first_node_.push_back(i == 0 ? 0 : static_cast<NodeIndex>(together_.node_count() - apart_[1].node_count()));
      together_.AddPool(RulesOf(order));
      gpus_.push_back(gpus);
    }
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      now_ += draws_.Below(600);
      End();
      const int arrivals = draws_.Below(3);
      for (int i = 0; i < arrivals; ++i) Arrive();
      const Plan both = together_.Decide(At(now_));
      for (std::size_t pool = 0; pool < 2; ++pool) {
        const Plan alone = apart_[pool].Decide(At(now_));
        ASSERT_EQ(Text(alone.starts, 0, pool), Text(both.starts, first_node_[pool], pool)) << "step " << step;
        ASSERT_EQ(Text(apart_[pool].reservations(), 0, pool), Text(together_.reservations(), first_node_[pool], pool))
            << "step " << step;
        for (const Start& start : alone.starts) ends_[start.job] = {pool, now_ + 1 + draws_.Below(3000)};
      }
      ASSERT_EQ(together_.CheckInvariants(), "");
    }
  }

 private:
  static Rules RulesOf(QueuePolicy order) {
    Rules rules;
    rules.order = order;
    // An escalated job gets a reservation at the next look at the queue, which events of the other pool can trigger.
    rules.escalate_after = Duration(0);
    return rules;
  }

  void End() {
    for (auto at = ends_.begin(); at != ends_.end();) {
      if (at->second.second > now_) {
        ++at;
        continue;
      }
      together_.Finish(at->first, At(now_));
      apart_[at->second.first].Finish(at->first, At(now_));
      at = ends_.erase(at);
    }
  }

  void Arrive() {
    const auto pool = static_cast<std::size_t>(draws_.Below(2));
    const int tasks = draws_.Below(4) == 0 ? 2 : 1;
    const int gpus = 1 + draws_.Below(gpus_[pool]);
    const Duration limit = draws_.Below(4) == 0 ? Duration(0) : Duration(minutes(1 + draws_.Below(60)));
    const std::uint64_t id = next_id_++;
    pool_of_[id] = pool;
    ResourceRequest request = PoolRequest(gpus, static_cast<PoolIndex>(pool + 1), static_cast<int>(pool), tasks);
    together_.Put(MakeJob(together_, id, request, At(now_), limit), At(now_));
    request.pool = kWholeCluster;
    apart_[pool].Put(MakeJob(apart_[pool], id, request, At(now_), limit), At(now_));
  }

  template <typename List>
  std::string Text(const List& list, NodeIndex first, std::size_t pool) const {
    std::string text;
    for (const auto& one : list) {
      if (pool_of_.at(IdOf(one)) != pool) continue;
      text += std::to_string(IdOf(one)) + ":";
      for (const TaskPlacement& placed : one.placements) {
        text += " " + std::to_string(placed.node - first) + "/" + std::to_string(placed.place.gpus.bits());
      }
      text += TimeOf(one) + "\n";
    }
    return text;
  }
  static std::uint64_t IdOf(const Start& start) { return start.job.value(); }
  static std::uint64_t IdOf(const BackfillReservation& reservation) { return reservation.entry.value(); }
  static std::string TimeOf(const Start&) { return ""; }
  static std::string TimeOf(const BackfillReservation& one) {
    return " at " + std::to_string(one.start.time_since_epoch().count());
  }

  Draws draws_;
  Cluster together_;
  std::vector<Cluster> apart_;
  std::vector<NodeIndex> first_node_;
  std::vector<int> gpus_;
  std::map<JobId, std::pair<std::size_t, int>> ends_;
  std::map<std::uint64_t, std::size_t> pool_of_;
  std::uint64_t next_id_ = 1;
  int now_ = 0;
};

TEST(Pools, DisjointPoolsBehaveLikeTwoClusters) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Twins twins(seed);
    twins.Run(40);
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace pools_test
}  // namespace divvy::core
