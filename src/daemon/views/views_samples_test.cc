#include "daemon/views/views_samples.h"

#include <gtest/gtest.h>

namespace divvy {
namespace views_samples_test {

using samples::Metric;
using samples::Of;

constexpr samples::Second kNow = 1'790'000'100;

class LatestTest : public testing::Test {
 protected:
  LatestTest() : store_(MetricStore::Options(), {[](const std::function<void()>&) {}, [](const std::string&) {}}) {
    samples::Snapshot seen;
    seen.at = kNow;
    for (const char* node : {"n2", "n1"}) {
      for (int gpu = 0; gpu < 2; ++gpu)
        seen.samples.push_back({{Of::kGpu, node, gpu, -1, 0}, {{Metric::kGpuUtilization, 0.5, ""}}});
      seen.samples.push_back({{Of::kNode, node, -1, -1, 0}, {{Metric::kCpuCores, 1.23456, ""}}});
      seen.samples.push_back({{Of::kJob, node, -1, -1, 17},
                              {{Metric::kGpuUtilization, node[1] == '1' ? 1.0 : 0.5, ""}, {Metric::kCpuCores, 2, ""}}});
    }
    seen.samples.push_back(
        {{Of::kJob, "n1", -1, -1, 18}, {{Metric::kCpuCores, 1, ""}, {Metric::kGpuUtilization, 0.3, "loss"}}});
    seen.processes.push_back({4711, 17, 1, 5e9, 0.25});
    store_.Add(seen, kNow);
  }
  wire::LatestAnswer Latest(bool has_many, JobShown shown) {
    return LatestViewOf(
        store_, Time(std::chrono::seconds(kNow)), has_many, [shown](JobId) { return shown; },
        [this](const std::string& node) { return node != away_; });
  }
  std::string away_;
  MetricStore store_;
};

TEST_F(LatestTest, ContainsEveryGpuNodeAndJobOnce) {
  const auto latest = Latest(true, JobShown::kAll);
  ASSERT_EQ(latest.gpus.size(), 4U);
  EXPECT_EQ(latest.gpus[0].node, "n1");
  EXPECT_EQ(latest.gpus[3].gpu, 1);
  ASSERT_EQ(latest.nodes.size(), 2U);
  EXPECT_EQ(latest.nodes[0].values.at("cpu_cores"), 1.2346);
  ASSERT_EQ(latest.jobs.size(), 2U);
  // Merged from both nodes: a sum, or a mean where a sum is meaningless.
  EXPECT_EQ(latest.jobs[0].values.at("cpu_cores"), 4);
  EXPECT_EQ(latest.jobs[0].values.at("gpu_utilization"), 0.75);
  EXPECT_EQ(latest.jobs[1].own.at("loss"), 0.3);
}

TEST_F(LatestTest, AJobOnThreeNodesHasTheirMean) {
  samples::Snapshot seen;
  seen.at = kNow;
  for (const auto& [node, value] : {std::pair("n1", 0.9), std::pair("n2", 0.3), std::pair("n3", 0.0)})
    seen.samples.push_back({{Of::kJob, node, -1, -1, 19}, {{Metric::kGpuUtilization, value, ""}}});
  store_.Add(seen, kNow);
  EXPECT_NEAR(Latest(true, JobShown::kAll).jobs.back().values.at("gpu_utilization"), 0.4, 1e-9);
}

TEST_F(LatestTest, AJobsReportedMetricsAreHiddenFromOtherUsers) {
  EXPECT_TRUE(Latest(true, JobShown::kUse).jobs[1].own.empty());
  EXPECT_EQ(Latest(true, JobShown::kUse).jobs[1].values.at("cpu_cores"), 1);
  EXPECT_TRUE(Latest(true, JobShown::kNothing).jobs.empty());
}

TEST_F(LatestTest, OmitsValuesThatAreNotCurrent) {
  // n1 now reports neither its GPU 1 nor job 17, whose other node n2 still reports it.
  samples::Snapshot next;
  next.at = kNow + 1;
  next.samples.push_back({{Of::kGpu, "n1", 0, -1, 0}, {{Metric::kGpuUtilization, 0.1, ""}}});
  next.samples.push_back({{Of::kNode, "n1", -1, -1, 0}, {{Metric::kCpuCores, 1, ""}}});
  store_.Add(next, kNow + 1);
  auto latest = Latest(true, JobShown::kAll);
  ASSERT_EQ(latest.gpus.size(), 3U);
  EXPECT_EQ(latest.gpus[0].values.at("gpu_utilization"), 0.1);
  EXPECT_EQ(latest.gpus[1].node, "n2");
  EXPECT_EQ(latest.gpus[1].time, kNow) << "what n2 said last is still what is known of it, and says of when";
  ASSERT_EQ(latest.jobs.size(), 1U);
  EXPECT_EQ(latest.jobs[0].values.at("cpu_cores"), 2);
  away_ = "n2";
  latest = Latest(true, JobShown::kAll);
  EXPECT_EQ(latest.gpus.size(), 1U);
  EXPECT_EQ(latest.nodes.size(), 1U);
  EXPECT_TRUE(latest.jobs.empty());
}

TEST_F(LatestTest, ASingleNodeHasNoName) {
  for (const auto& gpu : Latest(false, JobShown::kAll).gpus) EXPECT_EQ(gpu.node, "");
}

TEST(SeriesView, ReturnsNothingWithoutSamplesAndStepsBesideReportedMetrics) {
  MetricStore::Answer answer;
  answer.begin = 100;
  answer.step = 10;
  samples::Subject job;
  job.of = Of::kJob;
  job.job = 17;
  answer.series.push_back({job,
                           {{Metric::kGpuUtilization, "", {samples::PointOf(0.435), samples::NoPoint()}},
                            {Metric::kGpuUtilization, "loss", {samples::PointOf(0.3), samples::PointOf(0.1)}},
                            {Metric::kGpuUtilization, "step", {samples::PointOf(10), samples::PointOf(20)}}}});
  const auto view = SeriesViewOf(answer, false, true);
  ASSERT_EQ(view.series.size(), 3U);
  EXPECT_EQ(view.series[0].mean[0], 0.435);
  EXPECT_EQ(view.series[0].mean[1], std::nullopt);
  EXPECT_EQ(view.series[0].unit, "ratio");
  EXPECT_TRUE(view.series[0].step.empty());
  EXPECT_EQ(view.series[1].metric, "own.loss");
  EXPECT_EQ(view.series[1].mean[0], 0.3);
  EXPECT_EQ(view.series[1].step[1], 20);
  EXPECT_EQ(SeriesViewOf(answer, false, false).series.size(), 1U);
}

}  // namespace views_samples_test
}  // namespace divvy
