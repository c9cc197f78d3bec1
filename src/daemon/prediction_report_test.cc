#include "daemon/prediction_report.h"

#include <gtest/gtest.h>

namespace divvy {
namespace {

EndedRun Ran(std::string user, int ended_minute, int minutes) {
  const Time end = Time(std::chrono::hours(500'000)) + std::chrono::minutes(ended_minute);
  return {std::move(user), "train", {"python", "train.py"}, 1, end - std::chrono::minutes(minutes), end};
}

TEST(PredictionReport, WithoutRunsItHasOneEmptyRow) {
  const auto report = ReportPredictions({});
  EXPECT_EQ(report.jobs, 0);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].predicted, 0);
}

TEST(PredictionReport, RunsCountInTheOrderOfTheirEndsForAllAndByUser) {
  std::vector<EndedRun> runs;
  // Given newest first, as the store does. Ada's take 10 minutes but for the latest.
  runs.push_back(Ran("ada", 900, 100));
  for (int i = 8; i > 0; --i) runs.push_back(Ran("ada", i * 60, 10));
  for (int i = 8; i > 0; --i) runs.push_back(Ran("bob", i * 60 + 1, 30));
  EndedRun never;
  runs.push_back(never);
  const auto report = ReportPredictions(std::move(runs));
  EXPECT_EQ(report.jobs, 17);
  ASSERT_EQ(report.rows.size(), 3u);
  const auto& all = report.rows[0];
  const auto& ada = report.rows[1];
  const auto& bob = report.rows[2];
  EXPECT_EQ(ada.user, "ada");
  EXPECT_EQ(ada.unpredicted, 1);
  EXPECT_EQ(ada.predicted, 8);
  EXPECT_DOUBLE_EQ(ada.median_ratio, 1);
  EXPECT_DOUBLE_EQ(ada.within_factor_two, 7.0 / 8) << "the last one took ten times as long";
  EXPECT_DOUBLE_EQ(bob.within_factor_two, 1);
  EXPECT_EQ(all.predicted, 15);
  EXPECT_DOUBLE_EQ(all.within_factor_two, 14.0 / 15);
}

}  // namespace
}  // namespace divvy
