#include "cli/metrics_text.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace {

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

TEST(MetricsText, SaysWhyNothingWasSeen) {
  wire::JobDetail job = Job(8);
  job.reason = "waits for 4 GPUs, 1 free";
  EXPECT_EQ(NothingSeenOf(job, {}), "Job 8 has not started: waits for 4 GPUs, 1 free.\n");
  job.end_time = 20;
  job.reason = "cancelled by ada";
  EXPECT_EQ(NothingSeenOf(job, {}), "Job 8 never ran: cancelled by ada.\n");
  job.start_time = 10;
  EXPECT_EQ(NothingSeenOf(job, {}), "Nothing was seen of job 8 in that time.\n");
}

TEST(MetricsText, NamesTheElementsOfAnArray) {
  wire::JobDetail job = Job(9);
  job.elements = {{"queued", 2}};
  EXPECT_EQ(NothingSeenOf(job, {}), "Job 9 is an array, and none of its elements has started.\n");
  std::vector<wire::JobView> elements(5);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i].array_index = static_cast<std::int64_t>(4 - i);
    if (i != 3) elements[i].start_time = 10;
  }
  EXPECT_EQ(NothingSeenOf(job, elements),
            "Job 9 is an array, whose elements are seen one by one: divvy metrics 9_0,2-4\n");
}

TEST(MetricsText, OwnNumbersAreFirstAndLast) {
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

}  // namespace
}  // namespace divvy::cli
