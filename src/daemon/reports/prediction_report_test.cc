#include "daemon/reports/prediction_report.h"

#include <gtest/gtest.h>

namespace divvy {
namespace prediction_report_test {

const Time kBegin = Time(std::chrono::hours(500'000));

EndedRun Ran(std::string user, int ended_minute, int minutes) {
  EndedRun ended;
  ended.run.user = std::move(user);
  ended.run.name = "train";
  ended.run.ended = kBegin + std::chrono::minutes(ended_minute);
  ended.run.started = ended.run.ended - std::chrono::minutes(minutes);
  ended.command = {"python", "train.py"};
  ended.gpus = 1;
  return ended;
}

wire::PredictionsReport ReportAll(std::vector<EndedRun> runs) {
  return ReportPredictions(std::move(runs), ReportBy::kUser, {kNoTime, kBegin + std::chrono::hours(100)}, false);
}

TEST(PredictionReport, WithoutRunsTheReportHasOneEmptyRow) {
  const auto report = ReportAll({});
  EXPECT_EQ(report.jobs, 0);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].predicted, 0);
}

TEST(PredictionReport, RunsCountInOrderOfTheirEndsInTotalAndByUser) {
  std::vector<EndedRun> runs;
  // Newest first, as the store returns them. Ada's runs take 10 minutes, except the latest.
  runs.push_back(Ran("ada", 900, 100));
  for (int i = 8; i > 0; --i) runs.push_back(Ran("ada", i * 60, 10));
  for (int i = 8; i > 0; --i) runs.push_back(Ran("bob", i * 60 + 1, 30));
  EndedRun never;
  runs.push_back(never);
  const auto report = ReportAll(std::move(runs));
  EXPECT_EQ(report.jobs, 17);
  ASSERT_EQ(report.rows.size(), 3u);
  const auto& all = report.rows[0];
  const auto& ada = report.rows[1];
  const auto& bob = report.rows[2];
  EXPECT_EQ(ada.user, "ada");
  EXPECT_EQ(ada.unpredicted, 1);
  EXPECT_EQ(ada.predicted, 8);
  EXPECT_EQ(ada.median_ratio, 1);
  EXPECT_EQ(ada.within_factor_two, 7.0 / 8) << "the last one took ten times as long";
  EXPECT_EQ(bob.within_factor_two, 1);
  EXPECT_EQ(all.predicted, 15);
  EXPECT_EQ(all.within_factor_two, 14.0 / 15);
}

TEST(PredictionReport, WithoutPredictionsAccuracyIsUnknown) {
  const auto report = ReportAll({Ran("ada", 60, 10)});
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[1].unpredicted, 1);
  EXPECT_FALSE(report.rows[1].median_ratio || report.rows[1].within_factor_two || report.rows[1].inside_interval);
}

TEST(PredictionReport, APeriodCountsItsEndsAndLearnsFromEarlierRuns) {
  std::vector<EndedRun> runs;
  for (int hour = 1; hour <= 6; ++hour) runs.push_back(Ran("ada", hour * 60 + 5, hour < 5 ? 10 : 50));
  runs.back().run.model = "H100";
  const ReportStretch stretch = {kBegin + std::chrono::hours(5), kBegin + std::chrono::hours(6)};
  const auto report = ReportPredictions(runs, ReportBy::kUser, stretch, true);
  EXPECT_EQ(report.jobs, 1);
  EXPECT_DOUBLE_EQ(report.since, ToSeconds(stretch.since));
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_TRUE(report.rows[0].is_all);
  EXPECT_EQ(report.rows[0].predicted, 1) << "it was known from the four before";
  EXPECT_EQ(report.rows[0].median_ratio, 5);
  EXPECT_FALSE(report.is_cut) << "what is not read ended before the stretch";
  EXPECT_TRUE(ReportPredictions(runs, ReportBy::kUser, {kBegin, stretch.until}, true).is_cut);
}

TEST(PredictionReport, RowsFollowTheRequestedGrouping) {
  std::vector<EndedRun> runs;
  for (int hour = 1; hour <= 3; ++hour) {
    runs.push_back(Ran("ada", hour * 60 + 5, 10));
    runs.back().run.model = hour < 3 ? "A100" : "H100";
  }
  const ReportStretch all = {kNoTime, kBegin + std::chrono::hours(100)};
  const auto by_model = ReportPredictions(runs, ReportBy::kModel, all, false);
  ASSERT_EQ(by_model.rows.size(), 3u);
  EXPECT_EQ(by_model.rows[1].group, "A100");
  EXPECT_EQ(by_model.rows[1].unpredicted, 1);
  EXPECT_EQ(by_model.rows[1].user, "");
  EXPECT_EQ(by_model.rows[2].group, "H100");
  EXPECT_EQ(by_model.rows[2].predicted, 1);
  const auto by_hour = ReportPredictions(runs, ReportBy::kHour, all, false);
  ASSERT_EQ(by_hour.rows.size(), 4u);
  EXPECT_EQ(by_hour.rows[1].group, HourName(kBegin + std::chrono::hours(1)));
}

}  // namespace prediction_report_test
}  // namespace divvy
