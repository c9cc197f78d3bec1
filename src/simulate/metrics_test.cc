// Metrics that were computed by hand.
#include "simulate/metrics.h"

#include <gtest/gtest.h>

namespace divvy::simulate {
namespace metrics_test {

Time At(double seconds) { return TimeFromSeconds(seconds); }
Duration Seconds(double seconds) { return At(seconds).time_since_epoch(); }

struct Ran {
  double submit = 0, start = 0, end = 0;
  int gpus = 1;
  std::string team;
};

/// Jobs that ran without interruption, and the metrics of their replay on eight GPUs.
class Metrics : public testing::Test {
 protected:
  RunMetrics Of(const std::vector<Ran>& all, int gpus = 8) {
    for (const Ran& ran : all) {
      TraceJob job;
      job.submit = At(ran.submit);
      job.runtime = Seconds(ran.end - ran.start);
      job.gpus = ran.gpus;
      job.team = ran.team;
      Outcome outcome;
      outcome.job = static_cast<JobIndex>(workload_.jobs.size());
      outcome.submit = job.submit;
      outcome.first_start = At(ran.start);
      outcome.end = At(ran.end);
      outcome.held = job.runtime;
      outcome.gpu_seconds = ran.gpus * (ran.end - ran.start);
      workload_.jobs.push_back(job);
      replayed_.outcomes.push_back(outcome);
    }
    return Measure(workload_, TraceCluster{{{.count = 1, .gpus = gpus}}}, replayed_);
  }

  Workload workload_;
  Replayed replayed_;
};

TEST(Percentiles, AreInterpolatedBetweenTheNearestValues) {
  const Spread spread = SpreadOf({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(spread.mean, 2.5);
  EXPECT_DOUBLE_EQ(spread.median, 2.5);
  EXPECT_DOUBLE_EQ(spread.p90, 3.7);
  EXPECT_DOUBLE_EQ(spread.p99, 3.97);
  EXPECT_DOUBLE_EQ(spread.max, 4);
  EXPECT_EQ(SpreadOf({7}), (Spread{7, 7, 7, 7, 7}));
  EXPECT_EQ(SpreadOf({}), Spread());
}

TEST_F(Metrics, WaitRunAndSlowdownOfTwoJobs) {
  const RunMetrics metrics = Of({{0, 0, 100, 8, ""}, {50, 100, 104, 4, ""}});
  EXPECT_DOUBLE_EQ(metrics.all.jct_seconds.mean, (100 + 54) / 2.0);
  EXPECT_DOUBLE_EQ(metrics.all.wait_seconds.mean, 25);
  EXPECT_DOUBLE_EQ(metrics.all.wait_seconds.max, 50);
  EXPECT_DOUBLE_EQ(metrics.jobs[0].slowdown, 1);
  EXPECT_DOUBLE_EQ(metrics.jobs[1].slowdown, 5.4) << "4 s of run time count as 10";
  EXPECT_DOUBLE_EQ(metrics.all.gpu_hours, (800 + 16) / 3600.0);
}

TEST_F(Metrics, LostTimeIsWaitingAndCopying) {
  Of({{0, 10, 100, 1, ""}});
  replayed_.outcomes[0].first_start = At(15);
  replayed_.outcomes[0].copying = Seconds(5);
  replayed_.outcomes[0].held = Seconds(85);
  const RunMetrics metrics = Measure(workload_, TraceCluster{{{.count = 1, .gpus = 8}}}, replayed_);
  EXPECT_DOUBLE_EQ(metrics.jobs[0].first_start_seconds, 15);
  EXPECT_DOUBLE_EQ(metrics.all.wait_seconds.mean, 15);
  EXPECT_DOUBLE_EQ(metrics.all.lost_seconds.mean, 20);
}

TEST_F(Metrics, BoundedSlowdownCountsRunTimesOfAtLeastAMinute) {
  const RunMetrics metrics = Of({{0, 100, 120, 1, ""}, {0, 0, 30, 1, ""}});
  EXPECT_DOUBLE_EQ(metrics.jobs[0].bounded_slowdown, 2);
  EXPECT_DOUBLE_EQ(metrics.jobs[1].bounded_slowdown, 1);
  EXPECT_DOUBLE_EQ(metrics.all.bounded_slowdown.mean, 1.5);
}

TEST_F(Metrics, TheLongestTenthHasTheLongestRunTimes) {
  std::vector<Ran> all(11, {0, 0, 10, 8, ""});
  all[3] = {0, 50, 150, 1, ""};
  all[7] = {0, 100, 200, 1, ""};
  const RunMetrics metrics = Of(all);
  EXPECT_EQ(metrics.longest_tenth.jobs, 2);
  EXPECT_DOUBLE_EQ(metrics.longest_tenth.first_start_seconds.mean, 75);
  EXPECT_DOUBLE_EQ(metrics.largest_tenth.first_start_seconds.mean, 0);
}

TEST_F(Metrics, AGpuFractionCountsAsItsFraction) {
  workload_.jobs.clear();
  Of({{0, 0, 3600, 1, ""}});
  workload_.jobs[0].share = GpuShare(2500);
  const RunMetrics metrics = Measure(workload_, TraceCluster{{{.count = 1, .gpus = 1}}}, replayed_);
  EXPECT_DOUBLE_EQ(metrics.all.gpu_hours, .25);
  EXPECT_EQ(metrics.by_size.at(0).first, "<1");
}

TEST_F(Metrics, FairnessComparesWithAnEqualShare) {
  // Two teams all the time: an equal share is 4 of 8 GPUs, on which the first job takes twice its 100 s.
  const RunMetrics metrics = Of({{0, 0, 100, 8, "a"}, {0, 100, 200, 4, "b"}, {0, 100, 200, 4, "a"}});
  EXPECT_DOUBLE_EQ(metrics.jobs[0].rho, .5);
  EXPECT_DOUBLE_EQ(metrics.jobs[1].rho, 2);
  EXPECT_DOUBLE_EQ(metrics.jobs[2].rho, 2) << "its own team's other job is no third sharer";
  EXPECT_DOUBLE_EQ(metrics.all.unfair_percent, 100 * 2 / 3.0);
}

TEST_F(Metrics, TeamsCountWhileTheirJobsArePresent) {
  // Team b is present for half of a's stay. So N is 1.5 for a (8 x 1.5 / 8 times 100 s), and 2 for b.
  const RunMetrics metrics = Of({{0, 0, 100, 8, "a"}, {50, 100, 150, 8, "b"}});
  EXPECT_DOUBLE_EQ(metrics.jobs[0].rho, 1 / 1.5);
  EXPECT_DOUBLE_EQ(metrics.jobs[1].rho, 100 / (50 * 1.5));
}

TEST_F(Metrics, IfNotAllJobsHaveTeamsEachJobCountsAlone) {
  const RunMetrics metrics = Of({{0, 0, 100, 8, "a"}, {0, 100, 200, 8, ""}});
  EXPECT_DOUBLE_EQ(metrics.jobs[0].rho, .5);
  EXPECT_DOUBLE_EQ(metrics.jobs[1].rho, 200 / 150.0);
}

TEST_F(Metrics, GroupsAreBySizeTeamAndHour) {
  const RunMetrics metrics = Of(
      {{0, 0, 60, 1, "b"}, {3600, 3600, 3700, 4, "a"}, {3700, 3700, 3800, 3, "a"}, {90'000, 90'000, 90'010, 64, "a"}});
  std::string sizes, teams, hours;
  for (const auto& [name, figures] : metrics.by_size) sizes += name + ":" + std::to_string(figures.jobs) + " ";
  for (const auto& [name, figures] : metrics.by_team) teams += name + ":" + std::to_string(figures.jobs) + " ";
  for (const auto& [name, figures] : metrics.by_hour) hours += name + ":" + std::to_string(figures.jobs) + " ";
  EXPECT_EQ(sizes, "1:1 3-4:2 33-64:1 ");
  EXPECT_EQ(teams, "a:3 b:1 ");
  EXPECT_EQ(hours, "00:1 01:3 ");
}

TEST_F(Metrics, TheLargestTenthIsRoundedUp) {
  std::vector<Ran> jobs;
  for (int i = 0; i < 11; ++i) jobs.push_back({0, static_cast<double>(i), 100, i < 3 ? 8 : 1, ""});
  const RunMetrics metrics = Of(jobs);
  EXPECT_EQ(metrics.largest_tenth.jobs, 2);
  EXPECT_DOUBLE_EQ(metrics.largest_tenth.wait_seconds.max, 1) << "of three alike the first two";
}

TEST_F(Metrics, AllocationCoversTheTimeFromFirstToLast) {
  replayed_.load.Set(At(0), {.allocated_gpus = 8, .waiting_jobs = 1});
  replayed_.load.Set(At(100), {.allocated_gpus = 4, .fragmented_gpus = 2});
  replayed_.load.Finish(At(200));
  const RunMetrics metrics = Of({{0, 0, 100, 8, ""}, {50, 100, 200, 4, ""}});
  EXPECT_DOUBLE_EQ(metrics.allocation_percent, 75);
  EXPECT_DOUBLE_EQ(metrics.allocation_while_waiting_percent, 100);
  EXPECT_DOUBLE_EQ(metrics.utilisation_percent, 75);
  EXPECT_DOUBLE_EQ(metrics.fragmentation_percent, 12.5);
  EXPECT_DOUBLE_EQ(metrics.makespan_seconds, 200);
}

TEST_F(Metrics, RepeatedWorkIsAllocatedButNotUtilized) {
  replayed_.load.Set(At(0), {.allocated_gpus = 8});
  replayed_.load.Finish(At(200));
  Of({{0, 0, 100, 8, ""}});
  replayed_.outcomes[0].end = At(200);
  replayed_.outcomes[0].held = Seconds(200);
  replayed_.outcomes[0].gpu_seconds = 1600;
  replayed_.outcomes[0].preemptions = 1;
  const RunMetrics metrics = Measure(workload_, TraceCluster{{{.count = 1, .gpus = 8}}}, replayed_);
  EXPECT_DOUBLE_EQ(metrics.allocation_percent, 100);
  EXPECT_DOUBLE_EQ(metrics.utilisation_percent, 50);
  EXPECT_EQ(metrics.all.preemptions, 1);
  EXPECT_DOUBLE_EQ(metrics.all.wait_seconds.mean, 0);
}

}  // namespace metrics_test
}  // namespace divvy::simulate
