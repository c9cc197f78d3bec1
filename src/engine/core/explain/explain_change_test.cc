#include "engine/core/explain/explain_change.h"
#include "engine/core/explain/explain.h"

#include <gtest/gtest.h>

#include "engine/core/explain/explain_test_world.h"

namespace divvy::core {
namespace explain_change_test {

using std::chrono::hours;
using std::chrono::minutes;

std::string ChangeText(Cluster& cluster, std::uint64_t id, int seconds) {
  const Explanation answer = Explain(cluster, JobId(id), At(seconds));
  return answer.change ? answer.change->text : "";
}

// True if the job starts with the change applied, from the same place in the queue.
bool StartsWith(const Cluster& cluster, const Job& job, const Change& change, Time now) {
  Cluster copy = cluster.Copy();
  Job changed = job;
  changed.request = copy.Know(change.request);
  changed.limit = change.limit;
  changed.preemptible = change.preemptible;
  copy.Put(changed, now);
  const Plan plan = copy.Decide(now);
  return std::any_of(plan.starts.begin(), plan.starts.end(), [&](const Start& start) { return start.entry == job.id; });
}

TEST(Change, SuggestsTheMostGpusThatOneNodeHas) {
  Cluster cluster = MakeCluster(2, 8);
  cluster.Adopt(MakeJob(cluster, 1, GpuRequest(3), At(0)), {{0, AtGpus(0x07), 0, 0}}, At(0), At(0));
  cluster.Adopt(MakeJob(cluster, 2, GpuRequest(5), At(0)), {{1, AtGpus(0x1f), 0, 0}}, At(0), At(0));
  cluster.Put(MakeJob(cluster, 3, GpuRequest(8), At(0)), At(0));
  cluster.Decide(At(0));
  EXPECT_EQ(ChangeText(cluster, 3, 0), "--gpus 5 (GPUs 3-7 of n0 are free)");
}

TEST(Change, LowersTheMinimumOfAnElasticJob) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Adopt(MakeJob(cluster, 1, GpuRequest(5), At(0)), {{0, AtGpus(0x1f), 0, 0}}, At(0), At(0));
  ResourceRequest request = GpuRequest(1, 4, 8);
  request.locality = Locality::kNode;
  request.requires_locality = true;
  cluster.Put(MakeJob(cluster, 2, request, At(0)), At(0));
  cluster.Decide(At(0));
  EXPECT_EQ(ChangeText(cluster, 2, 0), "--gpus 3..8 (GPUs 5-7 are free)");
}

TEST(Change, SuggestsASmallerFractionButNotATinyOne) {
  Cluster cluster = MakeCluster(1, 1);
  cluster.Adopt(MakeJob(cluster, 1, ShareRequest(6000), At(0)), {{0, AtGpus(0x01), 0, 0}}, At(0), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(1), At(0)), At(0));
  cluster.Decide(At(0));
  EXPECT_EQ(ChangeText(cluster, 2, 0), "--gpus 0.4 (GPU 0 has 0.4 left)");
  cluster.Adopt(MakeJob(cluster, 3, ShareRequest(3000), At(0)), {{0, AtGpus(0x01), 0, 0}}, At(0), At(0));
  EXPECT_EQ(ChangeText(cluster, 2, 0), "");
}

TEST(Change, SuggestsNoTimeLimitBelowThePredictedRunTime) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  Cluster cluster = MakeCluster(1, 8, rules);
  cluster.Adopt(MakeJob(cluster, 1, GpuRequest(6), At(0), hours(2)), {{0, AtGpus(0x3f), 0, 0}}, At(0), At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(8), At(0)), At(0));
  for (std::uint64_t id = 3; id <= 4; ++id) {
    Job job = MakeJob(cluster, id, GpuRequest(1), At(1));
    job.predicted = id == 3 ? hours(3) : hours(1);
    cluster.Put(job, At(1));
  }
  cluster.Decide(At(1));
  EXPECT_EQ(ChangeText(cluster, 3, 1), "");
  EXPECT_EQ(ChangeText(cluster, 4, 1), "--time 1h59m (it would end before job 2 starts in 2 h)");
}

TEST(Change, SuggestsNothingIfACapIsFull) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("group eval", 1);
  for (std::uint64_t id = 1; id <= 2; ++id) {
    Job job = MakeJob(cluster, id, GpuRequest(2), At(0));
    job.caps = {cap};
    cluster.Put(job, At(0));
  }
  cluster.Decide(At(0));
  EXPECT_EQ(ChangeText(cluster, 2, 0), "");
}

// Applying the suggested change starts the job, and enough random cases have a suggestion.
TEST(Change, TheSuggestedChangeStartsTheJob) {
  int found = 0;
  std::set<ChangeKind> kinds;
  for (std::uint64_t seed = 5040; seed < 5060; ++seed) {
    RandomWorld world(seed);
    for (int step = 0; step < 50; ++step) {
      world.Step();
      if (step % 4 != 0) continue;
      for (const auto& [id, job] : world.waiting()) {
        if (world.Below(3) != 0) continue;
        const Explanation answer = Explain(world.cluster(), id, world.now());
        if (!answer.change) continue;
        found += 1;
        kinds.insert(answer.change->kind);
        ASSERT_TRUE(StartsWith(world.cluster(), job, *answer.change, world.now()))
            << answer.change->text << ": seed " << seed << " step " << step << " job " << ToString(id);
      }
    }
  }
  EXPECT_GT(found, 200);
  EXPECT_GE(kinds.size(), 7u);
}

}  // namespace explain_change_test
}  // namespace divvy::core
