#include "engine/core/explain/explain.h"

#include <gtest/gtest.h>

#include <sstream>

#include "engine/core/explain/explain_test_world.h"
#include "engine/core/place/explain_ahead.h"
#include "engine/core/place/job_perspective.h"

namespace divvy::core {
namespace explain_test {

using std::chrono::hours;
using std::chrono::minutes;

Explanation Why(Cluster& cluster, std::uint64_t id, int seconds, const Names& names = {}) {
  return Explain(cluster, JobId(id), At(seconds), names);
}

std::string TextOf(const Explanation& answer) {
  std::string text;
  for (const Blocker& blocker : answer.blockers) text += (text.empty() ? "" : " | ") + blocker.text;
  return text;
}

// Dumps all state that a decision reads.
std::string Picture(const Cluster& cluster) {
  std::ostringstream out;
  const ClusterState& state = cluster.state();
  for (const Node& node : state.nodes) {
    out << node.state.gpu_free << ' ' << node.state.cpu_free << ' ' << node.has_grown << ':';
    for (const ReservedCapacity& reserved : node.reserved) {
      out << reserved.entry.value() << '/' << reserved.advance << '/' << reserved.place.gpus.bits() << '/'
          << reserved.from.time_since_epoch().count() << ' ';
    }
    out << ';';
  }
  if (state.fleet) {
    for (const NodeState& node : state.fleet->nodes()) out << node.gpu_free << ',' << node.cpu_free << ' ';
  }
  for (const NodeIndex node : state.held) out << node << ' ';
  out << state.grown.size() << ' ' << state.fresh.size() << ' ' << state.reservations.size();
  return out.str();
}

void Fill(Cluster& cluster, std::uint64_t id, int gpus, Duration limit = hours(2)) {
  cluster.Put(MakeJob(cluster, id, GpuRequest(gpus), At(0), limit), At(0));
  cluster.Decide(At(0));
}

TEST(Explain, SaysNothingAboutAJobThatDoesNotWait) {
  Cluster cluster = MakeCluster(1, 8);
  Fill(cluster, 1, 4);
  EXPECT_FALSE(Why(cluster, 1, 1).is_waiting);
  EXPECT_FALSE(Why(cluster, 99, 1).is_waiting);
}

TEST(Explain, CountsGpusOnOneServer) {
  Cluster cluster = MakeCluster(1, 8);
  Fill(cluster, 1, 6);
  cluster.Put(MakeJob(cluster, 2, GpuRequest(4), At(1)), At(1));
  cluster.Decide(At(1));
  const Explanation answer = Why(cluster, 2, 1);
  EXPECT_EQ(TextOf(answer), "needs 4 GPUs, 2 are free");
  ASSERT_EQ(answer.blockers.size(), 1u);
  EXPECT_EQ(answer.blockers[0].kind, BlockerKind::kGpus);
  EXPECT_EQ(answer.blockers[0].needed, 4 * placement::kGpuParts);
  EXPECT_EQ(answer.blockers[0].available, 2 * placement::kGpuParts);
  ASSERT_EQ(answer.blockers[0].holders.size(), 1u);
  EXPECT_EQ(answer.blockers[0].holders[0].job, JobId(1));
  EXPECT_EQ(answer.blockers[0].holders[0].until, At(7200));
  EXPECT_EQ(answer.position, 1u);
}

TEST(Explain, CountsGpusOverManyNodes) {
  Cluster cluster = MakeCluster(3, 4);
  Fill(cluster, 1, 3);
  Fill(cluster, 2, 2);
  Fill(cluster, 3, 3);
  cluster.Put(MakeJob(cluster, 4, GpuRequest(4), At(1)), At(1));
  cluster.Decide(At(1));
  EXPECT_EQ(TextOf(Why(cluster, 4, 1)), "needs 4 GPUs on one node; 4 are free on 3 nodes, at most 2 on one");
}

TEST(Explain, DistinguishesFractionsFromWholeGpus) {
  Cluster cluster = MakeCluster(1, 1);
  cluster.Put(MakeJob(cluster, 1, ShareRequest(7000), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, ShareRequest(4000), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 3, GpuRequest(1), At(0)), At(0));
  cluster.Decide(At(0));
  // The smaller job started.
  EXPECT_EQ(TextOf(Why(cluster, 1, 0)), "needs 0.7 of a GPU; at most 0.6 of one GPU is free");
  EXPECT_EQ(TextOf(Why(cluster, 3, 0)), "needs 1 GPU, none is free");
}

TEST(Explain, NamesTheModelIfOnlyThatIsMissing) {
  Cluster cluster = MakeCluster(1, 4);
  NodeFacts other = cluster.node(0);
  other.name = "a";
  other.node_class = other.gpu_model = 1;
  cluster.AddNode(other);
  ResourceRequest request = GpuRequest(2);
  request.groups[0].alternatives[0].models = 2;
  cluster.Put(MakeJob(cluster, 1, request, At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, request, At(0)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 3, request, At(1)), At(1));
  cluster.Decide(At(1));
  Names names;
  names.models = [](placement::ModelSet) { return "of type a100"; };
  names.gpu_type_option = [](int node_class) { return node_class == 0 ? "--gpu-type h100" : "--gpu-type a100"; };
  const Explanation answer = Why(cluster, 3, 1, names);
  EXPECT_EQ(TextOf(answer), "needs 2 GPUs of type a100 on one node, none of these 4 is free");
  EXPECT_EQ(answer.blockers.at(0).kind, BlockerKind::kKind);
  ASSERT_TRUE(answer.change);
  EXPECT_EQ(answer.change->text, "--gpu-type h100 (GPUs 0 and 1 of n0 are free)");
}

TEST(Explain, NamesMissingCpusAndMemory) {
  Cluster cluster = MakeCluster(2, 4);
  ResourceRequest big = GpuRequest(1);
  big.groups[0].alternatives[0].cpu_milli = 60'000;
  big.groups[0].alternatives[0].memory_mib = 400 * 1024;
  for (std::uint64_t id = 1; id <= 2; ++id) cluster.Put(MakeJob(cluster, id, big, At(0)), At(0));
  cluster.Decide(At(0));
  ResourceRequest request = GpuRequest(2);
  request.groups[0].alternatives[0].cpu_milli = 8'000;
  request.groups[0].alternatives[0].memory_mib = 200 * 1024;
  cluster.Put(MakeJob(cluster, 3, request, At(1)), At(1));
  cluster.Decide(At(1));
  const Explanation answer = Why(cluster, 3, 1);
  EXPECT_EQ(TextOf(answer),
            "needs 8 CPUs and 2 GPUs on one node; at most 4 CPUs are free on one that has the GPUs | "
            "needs 200 GiB of memory and 2 GPUs on one node; at most 112 GiB is free on one that has the GPUs");
  ASSERT_TRUE(answer.change);
  EXPECT_EQ(answer.change->text, "--cpus 4 --memory 112G (GPUs 1 and 2 of n0 are free)");
}

TEST(Explain, NamesTheBackfillReservationInTheWay) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  Cluster cluster = MakeCluster(1, 8, rules);
  Fill(cluster, 1, 6);
  cluster.Put(MakeJob(cluster, 2, GpuRequest(8), At(1), hours(1)), At(1));
  cluster.Put(MakeJob(cluster, 3, GpuRequest(1), At(2)), At(2));
  cluster.Decide(At(2));
  const Explanation answer = Why(cluster, 3, 2);
  EXPECT_EQ(TextOf(answer),
            "GPUs 6 and 7 are free, but reserved for job 2, which is planned to start in 2 h; without a time limit, "
            "this job could run past that");
  ASSERT_TRUE(answer.change);
  EXPECT_EQ(answer.change->text, "--time 1h59m (it would end before job 2 starts in 2 h)");
  EXPECT_EQ(answer.blockers[0].rule, "reservation of job 2");
  EXPECT_EQ(answer.position, 2u);
  EXPECT_EQ(answer.ahead_parts, 8 * placement::kGpuParts);
}

TEST(Explain, NamesAnAdvanceReservation) {
  Cluster cluster = MakeCluster(1, 4);
  AdvanceReservation advance;
  advance.id = 7;
  advance.request = cluster.Know(GpuRequest(4));
  advance.user = 9;
  advance.from = At(3600);
  advance.until = At(7200);
  ASSERT_TRUE(cluster.Reserve(advance, At(0)));
  cluster.Put(MakeJob(cluster, 1, GpuRequest(2), At(0), hours(2)), At(0));
  cluster.Decide(At(0));
  const Explanation answer = Why(cluster, 1, 0);
  EXPECT_EQ(TextOf(answer),
            "needs 2 GPUs; all 4 free GPUs are reserved for one user in 1 h; this job could run past that");
  EXPECT_EQ(answer.blockers.at(0).rule, "reservation 7");
}

TEST(Explain, NamesCapsLimitsAndQuotas) {
  Cluster cluster = MakeCluster(2, 8);
  TeamSpec team;
  team.name = "vision";
  team.limit_parts = 6 * placement::kGpuParts;
  team.quota_parts = 4 * placement::kGpuParts;
  cluster.teams().Reset({team});
  cluster.RecountTeams(At(0));
  const CapIndex cap = cluster.AddCap("array 10", 1);
  const auto put = [&](std::uint64_t id) {
    Job job = MakeJob(cluster, id, GpuRequest(4), At(0), hours(1));
    job.team = 1;
    job.caps = {cap};
    cluster.Put(job, At(0));
  };
  put(1);
  cluster.Decide(At(0));
  put(2);
  cluster.Decide(At(0));
  const Explanation answer = Why(cluster, 2, 0);
  EXPECT_EQ(TextOf(answer),
            "array 10 runs 1 of at most 1 | team vision runs 4 GPUs of at most 6 GPUs; this needs 4 GPUs more | "
            "the quota of team vision is in use: its non-preemptible jobs hold 4 of 4 GPUs, and this one "
            "needs 4 more; --preemptible requeue lets it borrow idle GPUs");
  EXPECT_EQ(answer.blockers[0].rule, "array limit %1");
  EXPECT_EQ(answer.blockers[1].holders.size(), 1u);
  EXPECT_FALSE(answer.change);
  EXPECT_EQ(answer.start.typical, At(3600));
}

TEST(Explain, SuggestsPreemptibleToAJobBlockedByTheQuotaOnly) {
  Cluster cluster = MakeCluster(1, 8);
  TeamSpec team;
  team.name = "vision";
  team.quota_parts = 2 * placement::kGpuParts;
  cluster.teams().Reset({team});
  cluster.RecountTeams(At(0));
  Job job = MakeJob(cluster, 1, GpuRequest(4), At(0));
  job.team = 1;
  cluster.Put(job, At(0));
  cluster.Decide(At(0));
  const Explanation answer = Why(cluster, 1, 0);
  ASSERT_TRUE(answer.change);
  EXPECT_EQ(answer.change->text, "--preemptible requeue (GPUs 0-3 are free)");
}

TEST(Explain, DistinguishesRackFragmentationFromMissingGpus) {
  Cluster cluster = MakeCluster(8, 8);
  for (const NodeIndex node : {0u, 1u, 2u, 4u, 5u}) {
    cluster.Adopt(MakeJob(cluster, 10 + node, GpuRequest(8), At(0)), {{node, AtGpus(0xff), 0, 0}}, At(0), At(0));
  }
  ResourceRequest request = GpuRequest(8, 3);
  request.locality = Locality::kRack;
  request.requires_locality = true;
  cluster.Put(MakeJob(cluster, 1, request, At(0)), At(0));
  cluster.Decide(At(0));
  const Explanation answer = Why(cluster, 1, 0);
  EXPECT_EQ(TextOf(answer), "its 3 tasks must be in one rack; one rack has room for at most 2");
  ASSERT_TRUE(answer.change);
  EXPECT_EQ(answer.change->text, "--topology block:required (there is room for 3 tasks)");
}

TEST(Explain, CountsTheTasksOfAGang) {
  Cluster cluster = MakeCluster(4, 8);
  Fill(cluster, 1, 5);
  Fill(cluster, 2, 5);
  cluster.Put(MakeJob(cluster, 3, GpuRequest(8, 3), At(0)), At(0));
  cluster.Decide(At(0));
  const Explanation answer = Why(cluster, 3, 0);
  EXPECT_EQ(TextOf(answer),
            "needs 3 tasks of 8 GPUs at once; there is room for 2 of them; 22 are free on 4 nodes, at most 8 on one");
  ASSERT_TRUE(answer.change);
  EXPECT_EQ(answer.change->kind, ChangeKind::kFewerGpus);
}

TEST(Explain, NamesImpossibleRequestsAndNodesOutOfService) {
  Cluster cluster = MakeCluster(2, 8);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(16), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(8), At(0)), At(0));
  cluster.SetUsable(0, GpuSet::FromBits(0x0f), true);
  cluster.SetUsable(1, GpuSet::FromBits(0xff), false);
  cluster.Decide(At(0));
  const Explanation never = Why(cluster, 1, 0);
  EXPECT_EQ(TextOf(never), "can never start: asks for 16 GPUs on one node, but the largest has 8");
  EXPECT_EQ(never.blockers.at(0).kind, BlockerKind::kImpossible);
  EXPECT_EQ(never.start.basis, "never on this cluster as it is");
  const Explanation not_now = Why(cluster, 2, 0);
  EXPECT_EQ(TextOf(not_now), "asks for 8 GPUs on one node, but the largest that can be used now has 4");
  EXPECT_EQ(not_now.blockers.at(0).kind, BlockerKind::kUnusable);
  ASSERT_TRUE(not_now.change);
  EXPECT_EQ(not_now.change->text, "--gpus 4 (GPUs 0-3 of n0 are free)");
}

TEST(Explain, SuggestsFewerGpusThanARequiredTopologyNeeds) {
  std::vector<GpuFacts> gpus(4);
  for (std::size_t i = 0; i < 4; ++i) {
    gpus[i].index = static_cast<GpuIndex>(i);
    gpus[i].numa_node = static_cast<int>(i / 2);
    for (std::size_t j = 0; j < 4; ++j) gpus[i].links.push_back(i == j ? "X" : i / 2 == j / 2 ? "NV4" : "SYS");
  }
  NodeFacts facts;
  facts.name = "n0";
  facts.cpu_milli = 64'000;
  facts.memory_mib = 1024;
  facts.gpus = 4;
  facts.topology = std::make_shared<const GpuTopology>(gpus);
  Cluster cluster{Rules()};
  cluster.AddNode(facts);
  for (const int gpu : {0, 2}) {
    cluster.Adopt(MakeJob(cluster, static_cast<std::uint64_t>(10 + gpu), GpuRequest(1), At(0)),
                  {{0, {GpuSet::Only(gpu)}, 0, 0}}, At(0), At(0));
  }
  ResourceRequest request = GpuRequest(2);
  request.topology = TopologyNeed::kNvlink;
  request.requires_topology = true;
  cluster.Put(MakeJob(cluster, 1, request, At(0)), At(0));
  cluster.Decide(At(0));
  const Explanation answer = Why(cluster, 1, 0);
  EXPECT_EQ(TextOf(answer), "needs 2 GPUs joined by NVLink; 2 are free, no two of them joined");
  ASSERT_TRUE(answer.change);
  EXPECT_EQ(answer.change->text, "--topology nvlink (GPUs 1 and 3 are free)");
}

TEST(Explain, FindsTheQueuePositionByTheQueueKey) {
  Cluster cluster = MakeCluster(1, 8);
  Fill(cluster, 1, 8);
  cluster.Put(MakeJob(cluster, 2, GpuRequest(4), At(5)), At(5));
  cluster.Put(MakeJob(cluster, 3, GpuRequest(2), At(6)), At(6));
  Job array = MakeJob(cluster, 10, GpuRequest(1), At(7));
  array.count = 5;
  cluster.Put(array, At(7));
  cluster.Put(MakeJob(cluster, 4, GpuRequest(4), At(8)), At(8));
  cluster.Decide(At(8));
  const Explanation answer = Why(cluster, 4, 8);
  EXPECT_EQ(answer.position, 8u);
  EXPECT_EQ(answer.ahead_parts, 11 * placement::kGpuParts);
  EXPECT_EQ(answer.key, "priority 0, 4 GPUs, waiting 0 s");
  EXPECT_EQ(Why(cluster, 2, 4000).key, "priority 0, escalated, 4 GPUs, waiting 1 h 7 min");
  EXPECT_EQ(Why(cluster, 2, 3606).position, 1u);
}

// After a decision every waiting job has a blocker and its true place in the queue, and explaining changes nothing. The
// catch-all blocker kFit must never come first: it would hide a missing reason.
class RandomExplained : public testing::TestWithParam<int> {};

TEST_P(RandomExplained, EveryWaitingJobHasABlocker) {
  for (int seed = GetParam() * 5; seed < GetParam() * 5 + 5; ++seed) {
    RandomWorld world(static_cast<std::uint64_t>(seed));
    for (int step = 0; step < 45; ++step) {
      world.Step();
      if (step % 3 != 0) continue;
      const std::string before = Picture(world.cluster());
      std::map<JobId, Key> keys;
      for (const auto& [id, job] : world.waiting()) {
        const Explanation answer = Explain(world.cluster(), id, world.now());
        ASSERT_TRUE(answer.is_waiting);
        ASSERT_FALSE(answer.blockers.empty()) << "seed " << seed << " step " << step << " job " << ToString(id);
        ASSERT_NE(answer.blockers.front().kind, BlockerKind::kFit)
            << answer.blockers.front().text << ": seed " << seed << " step " << step << " job " << ToString(id);
        for (const Blocker& blocker : answer.blockers) ASSERT_FALSE(blocker.text.empty());
        ASSERT_FALSE(answer.start.basis.empty());
        if (!answer.is_queued) continue;
        const ClusterState& state = world.cluster().state();
        const Key own = OrderOf(state, SeekerOf(state, id), world.now());
        std::uint64_t ahead = 0;
        for (const auto& [other, entry] : state.waiting) {
          if (entry.lane != Waiting::Lane::kReady) continue;
          if (OrderOf(state, SeekerOf(state, other), world.now()) < own) ahead += entry.count;
        }
        ASSERT_EQ(answer.position, ahead + 1) << "seed " << seed << " step " << step << " job " << ToString(id);
      }
      ASSERT_EQ(Picture(world.cluster()), before) << "seed " << seed << " step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomExplained, testing::Range(0, 4));

}  // namespace explain_test
}  // namespace divvy::core
