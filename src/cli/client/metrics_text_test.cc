#include "cli/client/metrics_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace divvy::cli {
namespace metrics_text_test {

wire::JobDetail Job(std::uint64_t id) {
  wire::JobDetail job;
  job.id = JobId(id);
  job.display_id = std::to_string(id);
  return job;
}

wire::SeriesView Series(std::string metric, std::vector<std::optional<double>> mean) {
  wire::SeriesView series;
  series.of = "job";
  series.metric = std::move(metric);
  series.mean = std::move(mean);
  return series;
}

TEST(MetricsText, SaysWhyThereAreNoSamples) {
  wire::JobDetail job = Job(8);
  job.reason = "waits for 4 GPUs, 1 free";
  EXPECT_EQ(NothingSeenOf(job, {}, {}), "Job 8 has not started: waits for 4 GPUs, 1 free.\n");
  job.end_time = 20;
  job.reason = "cancelled by ada";
  EXPECT_EQ(NothingSeenOf(job, {}, {}), "Job 8 never ran: cancelled by ada.\n");
  job.start_time = 10;
  EXPECT_EQ(NothingSeenOf(job, {}, {}), "Nothing was sampled for job 8 in that period.\n");
  EXPECT_EQ(NothingSeenOf(job, {}, {"own.loss", "own.acc"}),
            "No own.loss, own.acc was sampled for job 8 in that period.\n");
}

TEST(MetricsText, NamesTheElementsOfAnArray) {
  wire::JobDetail job = Job(9);
  job.elements = {{"queued", 2}};
  EXPECT_EQ(NothingSeenOf(job, {}, {}), "Job 9 is an array, but none of its elements has started.\n");
  std::vector<wire::JobView> elements(5);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i].array_index = static_cast<std::int64_t>(4 - i);
    if (i != 3) elements[i].start_time = 10;
  }
  EXPECT_EQ(NothingSeenOf(job, elements, {"gpu_utilization"}),
            "Job 9 is an array; name one of its elements: divvy metrics 9_0,2-4\n");
}

TEST(MetricsText, TheAxisShowsDaysAndYearsOtherThanTodays) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  constexpr double kNow = 1'772'366'400;  // 2026-03-01 12:00.
  constexpr double kDay = 86'400;
  using Ends = std::pair<std::string, std::string>;
  EXPECT_EQ(AxisText(kNow - 60, kNow, kNow), Ends("11:59:00", "12:00:00"));
  EXPECT_EQ(AxisText(kNow - 7200, kNow, kNow), Ends("10:00", "12:00"));
  EXPECT_EQ(AxisText(kNow - 83'000, kNow, kNow), Ends("Feb 28 12:56", "Mar 01 12:00"));
  EXPECT_EQ(AxisText(kNow - kDay - 3600, kNow - kDay, kNow), Ends("Feb 28 11:00", "12:00"));
  EXPECT_EQ(AxisText(kNow - 30 * kDay, kNow, kNow), Ends("Jan 30 12:00", "Mar 01 12:00"));
  EXPECT_EQ(AxisText(kNow - 700 * kDay, kNow, kNow), Ends("2024-03-31", "2026-03-01"));
  EXPECT_EQ(AxisText(kNow - 365 * kDay - 3600, kNow - 365 * kDay, kNow), Ends("2025-03-01 11:00", "12:00"));
  EXPECT_EQ(AxisText(kNow - 366 * kDay, kNow - 365 * kDay, kNow), Ends("2025-02-28 12:00", "2025-03-01 12:00"));
}

TEST(MetricsText, KeepsOnlyTheRequestedMigInstance) {
  wire::SeriesAnswer all;
  for (const std::int64_t instance : {1, 13}) {
    all.series.push_back(Series("gpu_memory_used_bytes", {1}));
    all.series.back().instance = instance;
  }
  wire::SeriesAnswer answer = all;
  EXPECT_TRUE(KeepSlice("0", "all", answer));
  EXPECT_EQ(answer.series.size(), 2U);
  EXPECT_TRUE(KeepSlice("0", "13", answer));
  ASSERT_EQ(answer.series.size(), 1U);
  EXPECT_EQ(answer.series[0].instance, 13);
  answer = all;
  const auto missing = KeepSlice("0", "3", answer);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "GPU 0 had no samples of MIG instance 3 in that period; sampled instances: 1, 13");
}

TEST(MetricsText, ReportedMetricsAreListedFirstWithTheirLastValues) {
  wire::SeriesAnswer answer;
  answer.series = {Series("cpu_cores", {1}), Series("own.loss", {0.9, 0.35123, std::nullopt}),
                   Series("own.step", {1, std::nullopt, 120000}), Series("memory_used_bytes", {2})};
  EXPECT_EQ(OwnNumbersText(LastOwn(answer)), "step 120000, loss 0.3512");
  PutOwnFirst(answer);
  EXPECT_EQ(answer.series[0].metric, "own.loss");
  EXPECT_EQ(answer.series[1].metric, "own.step");
  EXPECT_EQ(answer.series[2].metric, "cpu_cores");
  EXPECT_EQ(OwnNumbersText({}), "");
}

}  // namespace metrics_text_test
}  // namespace divvy::cli
