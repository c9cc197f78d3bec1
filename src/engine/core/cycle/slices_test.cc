// MIG slices and GPU memory in the engine's plans: switching MIG mode on and off, reserved capacity, explanations.
#include <gtest/gtest.h>

#include <bit>

#include "engine/core/explain/explain.h"
#include "engine/core/explain/explain_change.h"
#include "engine/core/explain/explain_test_world.h"
#include "engine/core/explain/feasible.h"

namespace divvy::core {
namespace slices_test {

using placement::MigProfile;
using std::chrono::hours;

Cluster MakeSliceable(int nodes, int gpus) {
  Cluster cluster{Rules()};
  for (int i = 0; i < nodes; ++i) {
    NodeFacts facts = PlainNode(i, gpus);
    facts.gpu_memory_mib.assign(static_cast<std::size_t>(gpus), 81'920);
    facts.sliceable = GpuSet::FirstN(gpus);
    cluster.AddNode(facts);
  }
  return cluster;
}

ResourceRequest SliceRequest(MigProfile profile) {
  ResourceRequest request = GpuRequest(1);
  request.groups.front().alternatives = {placement::SliceShape(profile)};
  return request;
}

ResourceRequest MemoryRequest(int parts, std::int32_t gpu_memory_mib) {
  ResourceRequest request = ShareRequest(parts);
  request.groups.front().alternatives.front().gpu_memory_mib = gpu_memory_mib;
  return request;
}

TEST(SlicePlan, CutsAnIdleGpuAndMergesItForAWholeGpuJob) {
  Cluster cluster = MakeSliceable(1, 1);
  cluster.Put(MakeJob(cluster, 1, SliceRequest(MigProfile::k2g), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, SliceRequest(MigProfile::k2g), At(0)), At(0));
  Plan plan = cluster.Decide(At(0));
  ASSERT_EQ(plan.starts.size(), 2u);
  ASSERT_EQ(plan.carvings.size(), 1u) << "once for both";
  EXPECT_FALSE(plan.carvings[0].is_merge);
  EXPECT_EQ(plan.carvings[0].preemptor, JobId(1));
  EXPECT_FALSE(placement::Overlap(plan.starts[0].placements[0].place, plan.starts[1].placements[0].place));

  cluster.Put(MakeJob(cluster, 3, GpuRequest(1), At(1)), At(1));
  EXPECT_TRUE(cluster.Decide(At(1)).starts.empty());
  cluster.Finish(JobId(1), At(2));
  EXPECT_TRUE(cluster.Decide(At(2)).starts.empty()) << "an instance is still on it";
  cluster.Finish(JobId(2), At(3));
  plan = cluster.Decide(At(3));
  ASSERT_EQ(plan.starts.size(), 1u);
  ASSERT_EQ(plan.carvings.size(), 1u);
  EXPECT_TRUE(plan.carvings[0].is_merge);
  EXPECT_EQ(plan.carvings[0].preemptor, JobId(3));
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(SlicePlan, FillsACutGpuBeforeAnotherIsCut) {
  Cluster cluster = MakeSliceable(2, 2);
  for (std::uint64_t id = 1; id <= 7; ++id) {
    cluster.Put(MakeJob(cluster, id, SliceRequest(MigProfile::k1g), At(0)), At(0));
  }
  const Plan plan = cluster.Decide(At(0));
  ASSERT_EQ(plan.starts.size(), 7u);
  for (const Start& start : plan.starts) {
    EXPECT_EQ(start.placements[0].node, 0u);
    EXPECT_EQ(start.placements[0].place.gpus, GpuSet::Only(0));
  }
  EXPECT_EQ(plan.carvings.size(), 1u);
}

TEST(SlicePlan, AWholeGpuJobHasAReservationWhenTheSlicesEnd) {
  Cluster cluster = MakeSliceable(1, 1);
  cluster.Put(MakeJob(cluster, 1, SliceRequest(MigProfile::k3g), At(0), hours(2)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(1), At(1), hours(1)), At(1));
  cluster.Put(MakeJob(cluster, 3, SliceRequest(MigProfile::k1g), At(1), hours(3)), At(1));
  cluster.Put(MakeJob(cluster, 4, SliceRequest(MigProfile::k1g), At(1), hours(1)), At(1));
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  cluster.SetRules(rules);
  const Plan plan = cluster.Decide(At(1));
  ASSERT_EQ(plan.starts.size(), 1u) << "the short one ends before the whole job is to start, the long one would not";
  EXPECT_EQ(plan.starts[0].job, JobId(4));
  ASSERT_EQ(cluster.reservations().size(), 1u);
  EXPECT_EQ(cluster.reservations()[0].start, At(7200));
  EXPECT_EQ(cluster.CheckInvariants(), "");
}

TEST(SlicePlan, MemoryAndComputeAreCountedSeparately) {
  Cluster cluster = MakeSliceable(1, 1);
  cluster.Put(MakeJob(cluster, 1, MemoryRequest(2500, 61'440), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 2, MemoryRequest(2500, 40'960), At(0)), At(0));
  cluster.Put(MakeJob(cluster, 3, MemoryRequest(7500, 20'480), At(0)), At(0));
  const Plan plan = cluster.Decide(At(0));
  ASSERT_EQ(plan.starts.size(), 2u);
  EXPECT_EQ(plan.starts[0].job, JobId(1));
  EXPECT_EQ(plan.starts[1].job, JobId(3));
}

TEST(SliceWhy, NamesTheSliceAndTheNextThatWouldStart) {
  Cluster cluster = MakeSliceable(1, 1);
  cluster.Put(MakeJob(cluster, 1, SliceRequest(MigProfile::k4g), At(0)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, SliceRequest(MigProfile::k4g), At(0)), At(0));
  cluster.Decide(At(0));
  const Explanation answer = Explain(cluster, JobId(2), At(0));
  ASSERT_FALSE(answer.blockers.empty());
  EXPECT_EQ(answer.blockers[0].text, "needs a 4g slice of a GPU, and no GPU has room for one");
  ASSERT_TRUE(answer.change.has_value());
  EXPECT_EQ(answer.change->text, "--slice 3g (GPU 0 has room)");
}

TEST(SliceWhy, RefusesWhatNoGpuCanProvide) {
  const Status cut = Feasible(MakeCluster(2, 2), SliceRequest(MigProfile::k1g));
  ASSERT_FALSE(cut);
  EXPECT_EQ(
      cut.error().message,
      "asks for a 1g slice of a GPU, but no node has a GPU that supports slices; --gpus 0.125 asks for a GPU fraction "
      "instead");
  const Status memory = Feasible(MakeSliceable(1, 1), MemoryRequest(5000, 100'352));
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().message,
            "asks for 0.5 of a GPU with 98 GiB, but the GPU with the most has 80 GiB; --gpu-memory 80G is the maximum");
}

// As in the worlds without slices: totals match, no job is overlooked, reservations are kept. The plan's steps lead
// from one valid state of every GPU to the next.
TEST(SliceHistory, PlansAreValidInRandomWorlds) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomWorld world(seed, false, false, true);
    for (int step = 0; step < 40; ++step) {
      world.Step();
      ASSERT_EQ(world.cluster().CheckInvariants(), "") << "seed " << seed << ", step " << step;
      for (int again = 0; again < 5; ++again) {
        const Plan plan = world.cluster().Decide(world.now());
        ASSERT_TRUE(plan.starts.empty() && plan.carvings.empty()) << "seed " << seed << ", step " << step;
      }
      Cluster copy = world.cluster().Copy();
      const Plan anew = copy.DecideAnew(world.now());
      ASSERT_TRUE(anew.starts.empty()) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(SliceHistory, EveryWaitingJobHasABlockerAndTheSuggestedChangeStartsIt) {
  int changes = 0;
  for (std::uint64_t seed = 100; seed < 140; ++seed) {
    RandomWorld world(seed, false, false, true);
    for (int step = 0; step < 25; ++step) world.Step();
    for (const auto& [id, job] : world.waiting()) {
      if (job.begin > world.now()) continue;
      const Explanation answer = Explain(world.cluster(), id, world.now());
      ASSERT_FALSE(answer.blockers.empty()) << "seed " << seed << ", job " << id.value();
      if (!answer.change) continue;
      ++changes;
      Cluster copy = world.cluster().Copy();
      Job changed = RandomWorld::JobOf(job, answer.change->request, copy);
      changed.limit = answer.change->limit;
      changed.preemptible = answer.change->preemptible;
      copy.Put(changed, world.now());
      const Plan plan = copy.Decide(world.now());
      EXPECT_TRUE(
          std::any_of(plan.starts.begin(), plan.starts.end(), [&](const Start& one) { return one.entry == id; }))
          << "seed " << seed << ", job " << id.value() << ": " << answer.change->text;
    }
  }
  EXPECT_GT(changes, 20);
}

}  // namespace slices_test
}  // namespace divvy::core
