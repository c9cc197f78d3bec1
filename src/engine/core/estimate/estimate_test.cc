#include "engine/core/estimate/estimate.h"

#include <gtest/gtest.h>

#include "engine/core/explain/explain.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace estimate_test {

using std::chrono::hours;
using std::chrono::minutes;

Estimate When(Cluster& cluster, std::uint64_t id, int seconds, const SpreadOf& spread = {}) {
  return Explain(cluster, JobId(id), At(seconds), {}, spread).start;
}

Job Predicted(Cluster& cluster, std::uint64_t id, int gpus, Duration predicted, Duration limit = Duration(0)) {
  Job job = MakeJob(cluster, id, GpuRequest(gpus), At(0), limit);
  job.predicted = predicted;
  return job;
}

TEST(Estimate, IsBoundedByTheFirstReservation) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(6), At(0), hours(2)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(4), At(1), hours(1)), At(1));
  cluster.Decide(At(1));
  const Estimate start = When(cluster, 2, 1);
  EXPECT_TRUE(start.is_guaranteed);
  EXPECT_EQ(start.latest, At(7200));
  EXPECT_EQ(start.typical, At(7200));
  EXPECT_EQ(start.basis, "reserved: at the latest when job 1 reaches its time limit");
}

TEST(Estimate, ExpectsThePredictedEndAndIsBoundedByTimeLimits) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(Predicted(cluster, 1, 8, hours(1), hours(3)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(4), At(1)), At(1));
  cluster.Decide(At(1));
  const SpreadOf spread = [](JobId) { return RunSpread{minutes(30), hours(2)}; };
  const Estimate start = When(cluster, 2, 60, spread);
  EXPECT_EQ(start.earliest, At(1800));
  EXPECT_EQ(start.typical, At(3600));
  EXPECT_EQ(start.latest, At(3 * 3600));
}

TEST(Estimate, UsesPredictionsIfThereAreNoTimeLimits) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(Predicted(cluster, 1, 4, hours(1)), At(0));
  cluster.Put(Predicted(cluster, 2, 4, hours(2)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 3, GpuRequest(8), At(1)), At(1));
  cluster.Decide(At(1));
  const Estimate start = When(cluster, 3, 1);
  EXPECT_EQ(start.typical, At(7200));
  EXPECT_EQ(start.latest, kNever);
  EXPECT_FALSE(start.is_guaranteed);
  EXPECT_EQ(start.basis, "reserved: when jobs 1 and 2 end, predicted from earlier jobs or reported progress");
}

TEST(Estimate, PlacesJobsAheadOneAfterTheOther) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  Cluster cluster = MakeCluster(1, 8, rules);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(8), At(0), hours(1)), At(0));
  cluster.Decide(At(0));
  for (std::uint64_t id = 2; id <= 4; ++id) {
    cluster.Put(MakeJob(cluster, id, GpuRequest(8), At(static_cast<int>(id)), hours(1)), At(static_cast<int>(id)));
  }
  cluster.Put(MakeJob(cluster, 9, GpuRequest(4), At(9)), At(9));
  cluster.Decide(At(9));
  const Estimate start = When(cluster, 9, 9);
  EXPECT_EQ(start.typical, At(4 * 3600));
  EXPECT_EQ(start.latest, At(4 * 3600));
  EXPECT_EQ(start.basis, "after the 3 jobs ahead of it, estimated from predictions and time limits");
}

TEST(Estimate, SumsALongQueue) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  Cluster cluster = MakeCluster(10, 8, rules);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(8, 10), At(0), hours(1)), At(0));
  cluster.Decide(At(0));
  Job array = MakeJob(cluster, 100, GpuRequest(1), At(1), hours(1));
  array.count = 8000;
  cluster.Put(array, At(1));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(1), At(2)), At(2));
  cluster.Decide(At(2));
  // 80 run at a time.
  const Estimate start = When(cluster, 2, 2);
  EXPECT_NEAR(ToSeconds(start.typical - At(0)), 101 * 3600.0, 3600.0);
  EXPECT_EQ(start.basis, "after the 8000 jobs ahead of it, estimated from predictions and time limits");
}

TEST(Estimate, NamesJobsWhoseEndIsUnknown) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(6), At(0)), At(0));
  cluster.Decide(At(0));
  cluster.Put(MakeJob(cluster, 2, GpuRequest(4), At(1)), At(1));
  cluster.Decide(At(1));
  const Estimate start = When(cluster, 2, 1);
  EXPECT_EQ(start.typical, kNever);
  EXPECT_EQ(start.basis, "no estimate: job 1 has no time limit and no predicted run time");
  cluster.Decide(At(3700));
  EXPECT_EQ(When(cluster, 2, 3700).basis,
            "no estimate: job 1 has no time limit and no predicted run time; whatever becomes free is reserved for it");
}

TEST(Estimate, WaitsForTheBeginTime) {
  Cluster cluster = MakeCluster(1, 8);
  Job job = MakeJob(cluster, 1, GpuRequest(1), At(0));
  job.begin = At(600);
  cluster.Put(job, At(0));
  cluster.Decide(At(0));
  const Explanation answer = Explain(cluster, JobId(1), At(0));
  EXPECT_EQ(answer.start.typical, At(600));
  EXPECT_EQ(answer.start.basis, "its begin time");
  EXPECT_EQ(answer.blockers.at(0).text, "may begin in 10 min");
  EXPECT_EQ(answer.position, 0u);
}

TEST(Estimate, WaitsForACap) {
  Cluster cluster = MakeCluster(1, 8);
  const CapIndex cap = cluster.AddCap("group eval", 1);
  for (std::uint64_t id = 1; id <= 2; ++id) {
    Job job = MakeJob(cluster, id, GpuRequest(1), At(0), hours(1));
    job.caps = {cap};
    cluster.Put(job, At(0));
  }
  cluster.Decide(At(0));
  const Estimate start = When(cluster, 2, 0);
  EXPECT_EQ(start.typical, At(3600));
  EXPECT_EQ(start.basis, "when enough jobs of group eval end");
}

// With many jobs ahead on many nodes, ends are rounded up by at most 1/64 of their distance.
TEST(Estimate, RoundsDistantEndsSlightly) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  Cluster cluster = MakeCluster(520, 8, rules);
  for (std::uint64_t id = 1; id <= 4'160; ++id)
    cluster.Put(Predicted(cluster, id, 1, std::chrono::seconds(10'000)), At(0));
  cluster.Decide(At(0));
  Job ahead = Predicted(cluster, 10'000, 1, std::chrono::seconds(10'000));
  ahead.count = 12'480;
  cluster.Put(ahead, At(1));
  cluster.Put(Predicted(cluster, 90'000, 1, hours(1)), At(2));
  cluster.Decide(At(2));
  // 12,480 jobs ahead of it keep 4,160 GPUs for three times 10,000 s, from the end of those that run now.
  const double expected = 40'000;
  const auto start = std::chrono::duration<double>(When(cluster, 90'000, 2).typical - At(0)).count();
  EXPECT_GE(start, expected * 63 / 64);
  EXPECT_LE(start, expected * 66 / 64);
}

}  // namespace estimate_test
}  // namespace divvy::core
