#include "daemon/reports/shares_report.h"

#include <gtest/gtest.h>

namespace divvy {
namespace shares_report_test {

using std::chrono::hours;
using std::chrono::minutes;

Time At(int minute) { return Time(hours(24)) + minutes(minute); }

ReportedRun Ran(const std::string& team, double gpus, int started, int ended) {
  ReportedRun run;
  run.user = "ada";
  run.team = team;
  run.gpus = gpus;
  run.queued = run.started = At(started);
  if (ended >= 0) run.ended = At(ended);
  return run;
}

TEST(SharesReport, DividesEachRunAmongTheIntervalsThatItOverlaps) {
  const auto report = ReportShares({Ran("vision", 4, -30, 15), Ran("vision", 0.5, 20, 30), Ran("speech", 2, 25, -1)},
                                   ReportBy::kTeam, {At(0), At(40)}, 4);
  EXPECT_EQ(report.step_s, 600);
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[0].group, "vision");
  EXPECT_EQ(report.rows[0].gpus, (std::vector<double>{4, 2, 0.5, 0}));
  EXPECT_EQ(report.rows[1].group, "speech");
  EXPECT_EQ(report.rows[1].gpus, (std::vector<double>{0, 0, 1, 2}));
}

TEST(SharesReport, ShowsTeamQuotasAsTheyWereAtTheTime) {
  auto report = ReportShares({Ran("vision", 4, 0, 40), Ran("", 2, 0, 40)}, ReportBy::kTeam, {At(0), At(40)}, 4);
  MetricStore::Answer kept;
  kept.step = 1200;  // Half of the first point lies before the period.
  kept.begin = static_cast<samples::Second>(ToSeconds(At(-10)));
  samples::Subject vision;
  vision.of = samples::Of::kTeam;
  vision.node = "vision";
  const auto point = samples::PointOf;
  kept.series.push_back({vision,
                         {{samples::Metric::kTeamShare, "", {point(2), point(6), point(4)}},
                          {samples::Metric::kTeamQuota, "", {samples::NoPoint(), samples::NoPoint(), point(3)}}}});
  vision.node = "speech";  // This team held nothing.
  kept.series.push_back({vision, {{samples::Metric::kTeamShare, "", {point(1), point(1), point(1)}}}});
  AddTeamShares(kept, report);
  using Steps = std::vector<std::optional<double>>;
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[0].share, (Steps{2, 6, 6, 4}));
  EXPECT_EQ(report.rows[0].quota, (Steps{std::nullopt, std::nullopt, std::nullopt, 3}));
  EXPECT_TRUE(report.rows[0].limit.empty());
  EXPECT_TRUE(report.rows[1].share.empty()) << "those of no team have none";
}

TEST(SharesReport, GpuHoursMatchTheUsageReport) {
  const std::vector<ReportedRun> runs = {Ran("a", 3, -50, 17), Ran("a", 0.25, 3, 4), Ran("b", 8, 1, -1),
                                         Ran("", 1, 50, 80), Ran("c", 5, -20, -10)};
  const ReportStretch stretch{At(0), At(61)};
  const auto shares = ReportShares(runs, ReportBy::kTeam, stretch, 7);
  const auto usage = ReportUsage(runs, ReportBy::kTeam, stretch);
  ASSERT_EQ(shares.rows.size(), usage.rows.size());
  for (std::size_t i = 0; i < usage.rows.size(); ++i) {
    EXPECT_EQ(shares.rows[i].group, usage.rows[i].group);
    EXPECT_NEAR(shares.rows[i].gpu_hours, usage.rows[i].gpu_hours, 1e-9);
  }
}

TEST(SharesReport, AShorterLastIntervalShowsItsMean) {
  const auto report = ReportShares({Ran("a", 2, 0, -1)}, ReportBy::kTeam, {At(0), At(5)}, 2);
  EXPECT_EQ(report.step_s, 150);
  const auto uneven = ReportShares({Ran("a", 2, 0, -1)}, ReportBy::kTeam, {At(0), At(5) + std::chrono::seconds(1)}, 2);
  EXPECT_EQ(uneven.step_s, 151);
  ASSERT_EQ(uneven.rows.size(), 1u);
  EXPECT_EQ(uneven.rows[0].gpus, (std::vector<double>{2, 2}));
}

}  // namespace shares_report_test
}  // namespace divvy
