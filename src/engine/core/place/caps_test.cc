#include "engine/core/place/caps.h"

#include <gtest/gtest.h>

#include "engine/core/cycle/elastic_shrink.h"
#include "engine/core/cycle/preempt_test_world.h"
#include "engine/core/cycle/resize.h"
#include "engine/core/explain/explain.h"
#include "engine/core/explain/explain_change.h"
#include "engine/core/explain/explain_test_world.h"
#include "engine/core/explain/feasible.h"

namespace divvy::core {
namespace caps_test {

constexpr std::int64_t kGpu = placement::kGpuParts;

using std::chrono::hours;
using Ids = std::vector<std::uint64_t>;

Ids Started(const Plan& plan) {
  Ids ids;
  for (const Start& start : plan.starts) ids.push_back(start.job.value());
  return ids;
}

Job Capped(Cluster& cluster, std::uint64_t id, const ResourceRequest& request, std::vector<CapIndex> caps,
           Duration limit = hours(1)) {
  Job job = MakeJob(cluster, id, request, At(0), limit);
  job.caps = std::move(caps);
  return job;
}

void Wait(Cluster& cluster, std::uint64_t id, const ResourceRequest& request, std::vector<CapIndex> caps,
          Duration limit = hours(1)) {
  cluster.Put(Capped(cluster, id, request, std::move(caps), limit), At(0));
}

TEST(Caps, CountRunningJobs) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("user ada", 0, 5 * kGpu / 2);
  for (std::uint64_t id = 1; id <= 4; ++id) Wait(cluster, id, GpuRequest(1), {cap});
  Wait(cluster, 5, ShareRequest(5000), {cap});
  Wait(cluster, 6, GpuRequest(3), {});
  // Smallest first: half a GPU, then two whole ones.
  EXPECT_EQ(Started(cluster.Decide(At(0))), (Ids{5, 1, 2, 6}));
  cluster.Finish(JobId(1), At(1));
  EXPECT_EQ(Started(cluster.Decide(At(1))), (Ids{3}));
  cluster.Finish(JobId(5), At(2));
  EXPECT_TRUE(cluster.Decide(At(2)).starts.empty());
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(Caps, OnGpusDoNotBlockJobsWithoutGpus) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("user ada", 0, kGpu);
  Wait(cluster, 1, GpuRequest(1), {cap});
  Wait(cluster, 2, GpuRequest(0), {cap});
  Wait(cluster, 3, GpuRequest(1), {cap});
  EXPECT_EQ(Started(cluster.Decide(At(0))), (Ids{2, 1}));
  cluster.SetCap(cap, 0, 500);
  Wait(cluster, 4, GpuRequest(0), {cap});
  EXPECT_EQ(Started(cluster.Decide(At(1))), (Ids{4}));
}

TEST(Caps, ASmallerJobStartsIfALargerOneExceedsTheCap) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("group eval", 0, 4 * kGpu);
  Wait(cluster, 1, GpuRequest(3), {cap});
  cluster.Decide(At(0));
  Wait(cluster, 2, GpuRequest(2), {cap});
  EXPECT_TRUE(cluster.Decide(At(1)).starts.empty());
  Wait(cluster, 3, GpuRequest(1), {cap});
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{3}));
  cluster.Finish(JobId(1), At(3));
  EXPECT_EQ(Started(cluster.Decide(At(3))), (Ids{2}));
}

TEST(Caps, RaisingACapStartsJobsAndLoweringItStopsNone) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("user ada", 0, 2 * kGpu);
  for (std::uint64_t id = 1; id <= 6; ++id) Wait(cluster, id, GpuRequest(1), {cap});
  EXPECT_EQ(cluster.Decide(At(0)).starts.size(), 2u);
  cluster.SetCap(cap, 0, 4 * kGpu);
  EXPECT_EQ(cluster.Decide(At(1)).starts.size(), 2u);
  cluster.SetCap(cap, 0, kGpu);
  EXPECT_EQ(cluster.running_count(), 4u);
  cluster.Finish(JobId(1), At(2));
  EXPECT_TRUE(cluster.Decide(At(2)).starts.empty());
  cluster.SetCap(cap, 0, 0);
  EXPECT_EQ(cluster.Decide(At(3)).starts.size(), 2u);
}

TEST(Caps, KeepRoomForAJobWithAReservation) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  Cluster cluster = MakeCluster(2, 4, rules);
  const CapIndex cap = cluster.AddCap("user ada", 0, 4 * kGpu);
  cluster.Adopt(MakeJob(cluster, 1, GpuRequest(2), At(0), hours(1)), {{0, AtGpus(3), 0, 0}}, At(0), At(0));
  cluster.Adopt(MakeJob(cluster, 2, GpuRequest(2), At(0), hours(1)), {{1, AtGpus(3), 0, 0}}, At(0), At(0));
  Wait(cluster, 3, GpuRequest(4), {cap}, hours(1));
  cluster.Decide(At(0));
  ASSERT_EQ(cluster.reservations().size(), 1u);
  // There are free GPUs besides the reservation, but not within the cap.
  Wait(cluster, 4, GpuRequest(1), {cap}, hours(3));
  EXPECT_TRUE(cluster.Decide(At(1)).starts.empty());
  const Explanation why = Explain(cluster, JobId(4), At(1));
  ASSERT_FALSE(why.blockers.empty());
  EXPECT_EQ(why.blockers.front().text,
            "user ada holds 0 GPUs of at most 4 GPUs; this needs 1 GPU more, and the rest is reserved for a job ahead");
}

TEST(Caps, LimitTheGrowthOfElasticJobs) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("user ada", 0, 4 * kGpu);
  Wait(cluster, 1, GpuRequest(1, 2, 6), {cap});
  cluster.Decide(At(0));
  ASSERT_EQ(cluster.running(JobId(1))->placements.size(), 4u);
  EXPECT_EQ(cluster.CheckInvariants(), "");
  Wait(cluster, 2, GpuRequest(1), {cap});
  EXPECT_TRUE(cluster.Decide(At(1)).starts.empty());
  // Released GPUs are available to other jobs of the cap.
  cluster.GiveBack(JobId(1), {cluster.running(JobId(1))->placements.back()}, At(2));
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{2}));
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

// Two nodes of different kinds: resources freed on one help jobs on the other only through the cap.
class CapOverTwoNodeClasses : public testing::Test {
 protected:
  CapOverTwoNodeClasses() {
    for (int node_class = 0; node_class < 2; ++node_class) {
      NodeFacts facts;
      facts.name = "n" + std::to_string(node_class);
      facts.cpu_milli = 64'000;
      facts.memory_mib = 65'536;
      facts.gpus = 4;
      facts.node_class = facts.gpu_model = node_class;
      cluster.AddNode(facts);
    }
  }
  static ResourceRequest On(int node_class, ResourceRequest request) {
    request.groups.front().alternatives.front().models = placement::ModelSet{1} << node_class;
    return request;
  }

  Cluster cluster = MakeCluster(0, 0);
  CapIndex cap = cluster.AddCap("user ada", 0, 4 * kGpu);
};

TEST_F(CapOverTwoNodeClasses, GpusReturnedUnderTheCapLetAJobStartOnAnotherNode) {
  Wait(cluster, 1, On(0, GpuRequest(1, 2, 4)), {cap});
  cluster.Decide(At(0));
  ASSERT_EQ(cluster.running(JobId(1))->placements.size(), 4u);
  Wait(cluster, 2, On(1, GpuRequest(1)), {cap});
  EXPECT_TRUE(cluster.Decide(At(1)).starts.empty());
  cluster.GiveBack(JobId(1), {cluster.running(JobId(1))->placements.back()}, At(2));
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{2}));
}

TEST_F(CapOverTwoNodeClasses, ADroppedReservationLetsAJobStartOnAnotherNode) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  cluster.SetRules(rules);
  cluster.Adopt(MakeJob(cluster, 1, On(0, GpuRequest(2)), At(0), hours(1)), {{0, AtGpus(3), 0, 0}}, At(0), At(0));
  Wait(cluster, 2, On(0, GpuRequest(4)), {cap});
  cluster.Decide(At(0));
  ASSERT_EQ(cluster.reservations().size(), 1u);
  Wait(cluster, 3, On(1, GpuRequest(1)), {cap}, hours(3));
  EXPECT_TRUE(cluster.Decide(At(1)).starts.empty());
  cluster.Remove(JobId(2), At(2));
  EXPECT_EQ(Started(cluster.Decide(At(2))), (Ids{3}));
}

// Elastic jobs on one server: one task that is resized.
class ResizedUnderACap : public testing::Test {
 protected:
  ResizedUnderACap() {
    Job job = Capped(cluster, 1, GpuRequest(2), {cap}, Duration(0));
    cluster.Adopt(job, {{0, AtGpus(3), 0, 0}}, At(0), At(0));
  }
  GpuSet Grow(std::int64_t now) {
    const GpuSet more = OneMore(cluster, JobId(1), Taste{}, At(now));
    if (!more.empty()) Resize(cluster, JobId(1), Held() | more, {}, At(now));
    return more;
  }
  GpuSet Held() { return GpusOf(*cluster.running(JobId(1))); }

  Cluster cluster = MakeCluster(1, 8);
  CapIndex cap = cluster.AddCap("user ada", 0, 4 * kGpu);
};

TEST_F(ResizedUnderACap, AnElasticJobGrowsUpToItAndShrinksForAnotherJobOfTheCap) {
  EXPECT_FALSE(Grow(1).empty());
  EXPECT_FALSE(Grow(1).empty());
  EXPECT_TRUE(Grow(1).empty());
  EXPECT_EQ(cluster.state().caps[cap].parts, 4 * placement::kGpuParts);
  // Four GPUs are free, but the cap has room only for GPUs that the elastic job releases.
  Wait(cluster, 2, GpuRequest(1), {cap});
  EXPECT_TRUE(cluster.Decide(At(2)).starts.empty());
  Wait(cluster, 3, GpuRequest(3), {cap});
  const std::vector<ElasticShrink> given = RequestShrinks(cluster, {{JobId(1), 2, At(1)}}, At(2));
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given.front().preemptor, JobId(2));
  EXPECT_EQ(RequestedOf(*cluster.running(JobId(1))), given.front().parts.front().gpus);
  Resize(cluster, JobId(1), Held() - given.front().parts.front().gpus, {}, At(3));
  EXPECT_EQ(Started(cluster.Decide(At(3))), (Ids{2}));
  EXPECT_EQ(cluster.state().caps[cap].parts, 4 * placement::kGpuParts);
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST_F(ResizedUnderACap, NoShrinkIsRequestedForAJobWhoseCapStaysFull) {
  cluster.SetCap(cap, 0, 0);
  EXPECT_FALSE(Grow(1).empty());
  const CapIndex other = cluster.AddCap("user bob", 0, kGpu);
  cluster.Adopt(Capped(cluster, 4, GpuRequest(1), {other}), {{0, AtGpus(0x80), 0, 0}}, At(1), At(1));
  Wait(cluster, 5, GpuRequest(1), {other});
  cluster.Decide(At(1));
  EXPECT_TRUE(RequestShrinks(cluster, {{JobId(1), 1, At(1)}}, At(2)).empty());
}

TEST_F(ResizedUnderACap, GrowthLeavesRoomForReservationsWithinIt) {
  cluster.SetCap(cap, 0, 5 * kGpu);
  cluster.Adopt(MakeJob(cluster, 4, GpuRequest(4), At(0), hours(1)), {{0, AtGpus(0xf0), 0, 0}}, At(0), At(0));
  Wait(cluster, 5, GpuRequest(3), {cap});
  cluster.Decide(At(1));
  ASSERT_EQ(cluster.reservations().size(), 1u);
  EXPECT_TRUE(Grow(2).empty());
}

TEST(Caps, APreemptorWhoseCapIsFullPreemptsNothing) {
  Rules rules;
  rules.preempts = true;
  PreemptWorld world(1, 2, rules);
  const CapIndex cap = world.cluster.AddCap("user ada", 0, kGpu);
  world.Run(world.Make(1, GpuRequest(1)), {{0, AtGpus(1), 0, 0}});
  Job held = world.Make(2, GpuRequest(1));
  held.caps = {cap};
  held.priority = 9;
  world.jobs[2] = held;
  world.Run(held, {{0, AtGpus(2), 0, 0}});
  Job preemptor = world.Make(3, GpuRequest(1), 5);
  preemptor.caps = {cap};
  world.jobs[3] = preemptor;
  world.Wait(preemptor);
  EXPECT_TRUE(world.Round(100).preemptions.empty());
  world.cluster.SetCap(cap, 0, 2 * kGpu);
  EXPECT_EQ(TakenBy(world.Round(101)), (Ids{1}));
}

TEST(Caps, PreemptorsOfOneCapPreemptNoMoreThanItAllows) {
  Rules rules;
  rules.preempts = true;
  PreemptWorld world(1, 2, rules);
  const CapIndex cap = world.cluster.AddCap("user ada", 0, kGpu);
  world.Run(world.Make(1, GpuRequest(1)), {{0, AtGpus(1), 0, 0}});
  world.Run(world.Make(2, GpuRequest(1)), {{0, AtGpus(2), 0, 0}});
  for (std::uint64_t id = 3; id <= 4; ++id) {
    Job preemptor = world.Make(id, GpuRequest(1), 5);
    preemptor.caps = {cap};
    world.jobs[id] = preemptor;
    world.Wait(preemptor);
  }
  EXPECT_EQ(world.Round(100).preemptions.size(), 1u);
  EXPECT_TRUE(world.Round(101).preemptions.empty());
}

TEST(Caps, AreNamedWithTheirNumbers) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("user ada", 0, 3 * kGpu);
  Wait(cluster, 1, GpuRequest(2), {cap});
  cluster.Decide(At(0));
  Wait(cluster, 2, GpuRequest(2), {cap});
  Wait(cluster, 3, GpuRequest(4), {cap});
  cluster.Decide(At(0));
  const Explanation second = Explain(cluster, JobId(2), At(0));
  ASSERT_EQ(second.blockers.size(), 1u);
  const Blocker& blocker = second.blockers.front();
  EXPECT_EQ(blocker.kind, BlockerKind::kGpuCap);
  EXPECT_EQ(blocker.text, "user ada holds 2 GPUs of at most 3 GPUs; this needs 2 GPUs more");
  EXPECT_EQ(blocker.rule, "limit of user ada: 3 GPUs at once");
  EXPECT_EQ(blocker.needed, 2 * kGpu);
  EXPECT_EQ(blocker.available, kGpu);
  ASSERT_EQ(blocker.holders.size(), 1u);
  EXPECT_EQ(blocker.holders.front().job, JobId(1));
  EXPECT_EQ(second.start.typical, At(3600));
  ASSERT_TRUE(second.change);
  EXPECT_EQ(second.change->text, "--gpus 1 (GPU 2 is free)");

  const Explanation third = Explain(cluster, JobId(3), At(0));
  EXPECT_EQ(third.blockers.front().text,
            "can never start: asks for 4 GPUs, but user ada never holds more than 3 GPUs at once");
  EXPECT_TRUE(third.blockers.front().holders.empty());
  EXPECT_EQ(third.start.typical, kNever);
  EXPECT_EQ(third.start.basis, "never: it asks for more than a limit allows at once");
}

// On random clusters with caps on GPUs, every waiting job has a blocker, and the suggested change lets it start.
TEST(Caps, BlockersAreExplainedOnRandomClusters) {
  int capped = 0;
  int changed = 0;
  for (std::uint64_t seed = 7000; seed < 7012; ++seed) {
    RandomWorld world(seed, true, true);
    for (int step = 0; step < 45; ++step) {
      world.Step();
      ASSERT_EQ(world.cluster().CheckInvariants(), "");
      if (step % 3 != 0) continue;
      for (const auto& [id, job] : world.waiting()) {
        const Explanation answer = Explain(world.cluster(), id, world.now());
        const std::string which =
            "seed " + std::to_string(seed) + " step " + std::to_string(step) + " job " + ToString(id);
        ASSERT_FALSE(answer.blockers.empty()) << which;
        ASSERT_NE(answer.blockers.front().kind, BlockerKind::kFit) << answer.blockers.front().text << ": " << which;
        const bool is_capped = answer.blockers.front().kind == BlockerKind::kGpuCap;
        capped += is_capped ? 1 : 0;
        if (!is_capped || !answer.change) continue;
        changed += 1;
        Cluster copy = world.cluster().Copy();
        Job other = RandomWorld::JobOf(job, answer.change->request, copy);
        other.limit = answer.change->limit;
        other.preemptible = answer.change->preemptible;
        copy.Put(other, world.now());
        const Plan plan = copy.Decide(world.now());
        const bool starts = std::any_of(plan.starts.begin(), plan.starts.end(),
                                        [&, at = id](const Start& start) { return start.entry == at; });
        ASSERT_TRUE(starts) << answer.change->text << ": " << which;
      }
    }
  }
  EXPECT_GT(capped, 100);
  EXPECT_GT(changed, 20);
}

}  // namespace caps_test
}  // namespace divvy::core
