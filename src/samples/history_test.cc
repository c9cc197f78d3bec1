#include "samples/history.h"

#include <gtest/gtest.h>

#include "samples/chart.h"
#include "samples/track.h"

namespace divvy::samples {
namespace history_test {

constexpr Second kStart = 1'790'000'100;  // A multiple of 10, of 60 and of 900.

std::vector<Reading> Use(double value) { return {{Metric::kGpuUtilization, value, ""}}; }

TEST(History, KeepsTheLastTenMinutesSecondBySecond) {
  History history;
  for (Second i = 0; i < 1000; ++i) history.Add(kStart + i, Use(i % 2 == 0 ? 0 : 1));
  const Block block = history.Seconds(0, kStart + 2000);
  EXPECT_EQ(block.begin, kStart + 400);
  ASSERT_EQ(block.count, 600U);
  EXPECT_EQ(block.columns[0].points[0].mean, 0);
  EXPECT_EQ(block.columns[0].points[599].mean, 1);
  EXPECT_EQ(history.NewestOf(Metric::kGpuUtilization), 1);
}

TEST(History, MeanOfTheLastSecondsUsesObservedSeconds) {
  History history;
  EXPECT_FALSE(history.MeanOf(Metric::kGpuUtilization, 10));
  for (Second i = 0; i < 100; ++i) history.Add(kStart + i, Use(i == 95 ? 1 : 0));
  EXPECT_DOUBLE_EQ(*history.MeanOf(Metric::kGpuUtilization, 10), 0.1);
  EXPECT_DOUBLE_EQ(*history.MeanOf(Metric::kGpuUtilization, 4), 0);
  EXPECT_FALSE(history.MeanOf(Metric::kGpuPower, 10));
  history.Add(kStart + 104, Use(1));
  EXPECT_DOUBLE_EQ(*history.MeanOf(Metric::kGpuUtilization, 10), 2.0 / 6) << "four of them nobody saw";
}

TEST(History, UnobservedSecondsAreEmpty) {
  History history;
  history.Add(kStart, Use(1));
  history.Add(kStart + 5, Use(0.5));
  const Block block = history.Seconds(kStart, kStart + 6);
  ASSERT_EQ(block.count, 6U);
  EXPECT_TRUE(IsPoint(block.columns[0].points[0]));
  EXPECT_FALSE(IsPoint(block.columns[0].points[3]));
  EXPECT_EQ(block.columns[0].points[5].mean, 0.5F);
}

TEST(History, AfterALongGapNoOldValueIsLeftInTheRing) {
  History history;
  for (Second i = 0; i < 600; ++i) history.Add(kStart + i, Use(1));
  history.Add(kStart + 5000, Use(0));
  const Block block = history.Seconds(0, kStart + 6000);
  int points = 0;
  for (const Point& point : block.columns[0].points) points += IsPoint(point) ? 1 : 0;
  EXPECT_EQ(points, 1);
}

TEST(History, TenSecondsBecomeMeanMinimumAndMaximum) {
  History history;
  for (Second i = 0; i < 20; ++i) history.Add(kStart + i, Use(i < 10 ? static_cast<double>(i) / 10 : 1));
  const Block open = history.Open(0);
  ASSERT_EQ(open.count, 2U);
  EXPECT_EQ(open.begin, kStart);
  EXPECT_NEAR(open.columns[0].points[0].mean, 0.45F, 1e-6);
  EXPECT_EQ(open.columns[0].points[0].least, 0);
  EXPECT_EQ(open.columns[0].points[0].greatest, 0.9F);
  EXPECT_EQ(open.columns[0].points[1].mean, 1);  // The unfinished point is included.
}

TEST(History, BlocksAreTakenOnceTheyAreFull) {
  History history;
  for (Second i = 0; i < 1300; ++i) history.Add(kStart + i, Use(0.5));
  EXPECT_EQ(history.full().size(), 2U);  // Blocks of 10 s points, ten minutes each.
  const auto full = history.TakeFull();
  ASSERT_EQ(full.size(), 2U);
  EXPECT_EQ(full[0].begin, kStart);
  EXPECT_EQ(full[0].count, 60U);
  EXPECT_EQ(full[1].begin, kStart + 600);
  EXPECT_TRUE(history.TakeFull().empty());
  EXPECT_EQ(history.Open(0).begin, kStart + 1200);
  EXPECT_EQ(history.Open(1).count, 22U);
}

TEST(History, ALongGapStartsANewBlock) {
  History history;
  for (Second i = 0; i < 30; ++i) history.Add(kStart + i, Use(0.5));
  history.Add(kStart + 7200, Use(1));
  ASSERT_EQ(history.full().size(), 2U);  // One of 10 s points, one of minutes.
  EXPECT_EQ(history.full()[0].count, 3U);
  EXPECT_EQ(history.Open(0).begin, kStart + 7200);
  EXPECT_EQ(history.Open(2).count, 9U);  // 15 min points, seven of them empty.
}

TEST(History, AChangedBlockIsTakenOnce) {
  History history;
  history.Add(kStart, Use(1));
  EXPECT_TRUE(history.TakeChanged(0));
  EXPECT_FALSE(history.TakeChanged(0));
  history.Add(kStart + 1, Use(1));
  EXPECT_TRUE(history.TakeChanged(0));
}

TEST(History, BitMasksAreCombined) {
  History history;
  history.Add(kStart, {{Metric::kGpuThrottle, 4, ""}});
  history.Add(kStart + 1, {{Metric::kGpuThrottle, 8, ""}});
  EXPECT_EQ(history.Open(0).columns[0].points[0].mean, 12);
}

TEST(Track, AWeekHasNoMorePointsThanAnHour) {
  Track track;
  for (Second i = 0; i < 7 * 86'400; i += 10)
    track.Add(kStart + i,
              {{Metric::kGpuUtilization, 0.25, ""}, {Metric::kGpuUtilization, static_cast<double>(i), "step"}});
  const Block& block = track.block();
  EXPECT_LE(block.count, Track::kMostPoints);
  EXPECT_GT(block.count, Track::kMostPoints / 2);
  EXPECT_EQ(block.begin, kStart);
  EXPECT_EQ(track.own().at("step"), 7 * 86'400 - 10);
  for (const Point& point : block.columns[0].points) EXPECT_FLOAT_EQ(point.mean, 0.25F);
  // Steps only increase, and the last one is present.
  const auto& steps = block.columns[1].points;
  for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_GT(steps[i].mean, steps[i - 1].mean);
  EXPECT_FLOAT_EQ(steps.back().mean, 7 * 86'400 - 10);
}

TEST(Track, MinimumAndMaximumSurviveDownsampling) {
  Track track;
  for (Second i = 0; i < 10'000; ++i)
    track.Add(kStart + i, {{Metric::kGpuUtilization, i == 4321 ? 100.0 : 1.0, "loss"}});
  float greatest = 0;
  for (const Point& point : track.block().columns[0].points) greatest = std::max(greatest, point.greatest);
  EXPECT_EQ(greatest, 100);
}

TEST(Track, KeepsALimitedNumberOfNames) {
  Track track;
  std::vector<Reading> said;
  for (std::size_t i = 0; i < Track::kMostOwnNames; ++i)
    said.push_back({Metric::kGpuUtilization, 1, "m" + std::to_string(i)});
  track.Add(kStart, said);
  EXPECT_EQ(track.block().columns.size(), Track::kMostOwnNames);
  for (int i = 0; i < 7; ++i) said.push_back({Metric::kGpuUtilization, 1, "more" + std::to_string(i)});
  track.Add(kStart + 1, said);
  // The number of dropped names is stored as a metric of its own.
  ASSERT_EQ(track.block().columns.size(), Track::kMostOwnNames + 1);
  EXPECT_EQ(track.block().columns.back().metric, Metric::kOwnNamesLeftOut);
  EXPECT_EQ(track.block().columns.back().points[1].mean, 7);
  EXPECT_EQ(track.own().size(), Track::kMostOwnNames);
}

TEST(Track, ContinuesAStoredTrack) {
  Track track;
  for (Second i = 0; i < 2000; ++i) track.Add(kStart + i, {{Metric::kCpuCores, 2, ""}});
  auto block = DecodeBlock(EncodeBlock(track.block()));
  ASSERT_TRUE(block);
  Track again(*std::move(block));
  again.Add(kStart + 2000, {{Metric::kCpuCores, 2, ""}});
  EXPECT_EQ(again.block().begin, kStart);
  EXPECT_GE(again.block().end(), kStart + 2001);
  for (const Point& point : again.block().columns[0].points) EXPECT_FLOAT_EQ(point.mean, 2);
}

TEST(Chart, UsesTheCoarsestLevelThatIsFineEnough) {
  const Second now = kStart;
  EXPECT_EQ(ChooseStep({now - 300, now, 400}, now), 1);
  EXPECT_EQ(ChooseStep({now - 3600, now, 400}, now), 10);  // The ring does not reach back.
  EXPECT_EQ(ChooseStep({now - 86'400, now, 400}, now), 60);
  EXPECT_EQ(ChooseStep({now - 86'400, now, 4000}, now), 10);
  EXPECT_EQ(ChooseStep({now - 30 * 86'400, now, 400}, now), 900);
  EXPECT_EQ(ChooseStep({now - 30 * 86'400, now - 29 * 86'400, 4000}, now), 60);
  EXPECT_EQ(ChooseStep({now - 700 * 86'400, now, 4000}, now), 900);
}

TEST(Chart, FoldsPointsAndKeepsExtremes) {
  Block block{kStart, 10, 6, {}};
  block.columns.push_back({Metric::kGpuUtilization, "", {}});
  for (int i = 0; i < 6; ++i) block.columns[0].points.push_back({0.1F * static_cast<float>(i), 0, 1});
  const Range range{kStart, kStart + 60, 2};
  Chart chart(range, StepOf(range, 10));
  chart.Add(block);
  EXPECT_EQ(chart.step(), 30);
  const auto curves = chart.TakeCurves();
  ASSERT_EQ(curves.size(), 1U);
  ASSERT_EQ(curves[0].points.size(), 2U);
  EXPECT_NEAR(curves[0].points[0].mean, 0.1F, 1e-6);
  EXPECT_NEAR(curves[0].points[1].mean, 0.4F, 1e-6);
  EXPECT_EQ(curves[0].points[0].greatest, 1);
}

TEST(Chart, ValuesPerSecondAreNotMixedWithTheirMeans) {
  const Block seconds{kStart + 13, 1, 7, {{Metric::kGpuPower, "", std::vector<Point>(7, PointOf(1))}}};
  const Block means{kStart, 10, 3, {{Metric::kGpuPower, "", std::vector<Point>(3, PointOf(5))}}};
  const Range range{kStart, kStart + 30, 30};
  Chart chart(range, StepOf(range, 1));
  chart.Add(seconds);
  chart.AddWhereEmpty(means);
  chart.AddWhereEmpty(means);
  const auto curves = chart.TakeCurves();
  ASSERT_EQ(curves.size(), 1U);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(curves[0].points[i].mean, i >= 13 && i < 20 ? 1 : 5) << i;
}

TEST(Chart, PointsOutsideTheRangeAreOmitted) {
  Block block{kStart, 1, 100, {{Metric::kGpuPower, "", std::vector<Point>(100, PointOf(5))}}};
  const Range range{kStart + 50, kStart + 60, 10};
  Chart chart(range, StepOf(range, 1));
  chart.Add(block);
  const auto curves = chart.TakeCurves();
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].points.size(), 10U);
  for (const Point& point : curves[0].points) EXPECT_EQ(point.mean, 5);
}

TEST(Chart, SeriesOfAJobsNodesAreSummedOrAveraged) {
  const std::vector<Curve> a = {{Metric::kGpuUtilization, "", {PointOf(0.5)}}, {Metric::kCpuCores, "", {PointOf(2)}}};
  const std::vector<Curve> b = {{Metric::kGpuUtilization, "", {PointOf(1)}}, {Metric::kCpuCores, "", {PointOf(3)}}};
  const auto joined = JoinCurves({a, b}, 1);
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[0].points[0].mean, 0.75F);
  EXPECT_EQ(joined[1].points[0].mean, 5);
}

TEST(Chart, ANodeThatReportsLateOrEndsEarlierCausesNoDip) {
  const auto curve = [](std::size_t told) {
    std::vector<Point> points(60, NoPoint());
    std::fill_n(points.begin(), told, PointOf(300));
    return std::vector<Curve>{{Metric::kGpuPower, "", points}, {Metric::kGpuUtilization, "loss", points}};
  };
  const auto values = [](const Curve& of) {
    std::vector<int> means;
    for (const Point& point : of.points) means.push_back(IsPoint(point) ? static_cast<int>(point.mean) : -1);
    return means;
  };
  auto joined = JoinCurves({curve(40), curve(30)}, 1);
  ASSERT_EQ(joined.size(), 2U);
  std::vector<int> wanted(60, -1);
  std::fill_n(wanted.begin(), 40, 600);
  EXPECT_EQ(values(joined[0]), wanted) << "and nothing behind the last that any part told";
  std::fill_n(wanted.begin(), 40, 300);
  EXPECT_EQ(values(joined[1]), wanted) << "of what a job says itself a mean of those that say it";
  // A part that is silent for longer counts as ended.
  joined = JoinCurves({curve(60), curve(30)}, 1);
  EXPECT_EQ(values(joined[0])[44], 600);
  EXPECT_EQ(values(joined[0])[45], 300);
  // In a minute that has just begun, only one part may have reported.
  joined = JoinCurves({curve(40), curve(39)}, 60);
  EXPECT_EQ(values(joined[0])[39], 600);
}

TEST(Subject, IsReadBackFromItsText) {
  for (const Subject& subject : {Subject{Of::kGpu, "n1", 3, -1, 0}, Subject{Of::kSlice, "a/b", 3, 1, 0},
                                 Subject{Of::kNode, "n1", -1, -1, 0}, Subject{Of::kJob, "n1", -1, -1, 17},
                                 Subject{Of::kCluster, "", -1, -1, 0}, Subject{Of::kTeam, "vision", -1, -1, 0}}) {
    EXPECT_EQ(SubjectFromText(ToText(subject)), subject) << ToText(subject);
  }
  for (const char* text : {"", "gpu", "gpu/", "gpu/x/n1", "gpu/-1/n1", "job/0/n1", "cluster/x", "tpu/1/n1"})
    EXPECT_FALSE(SubjectFromText(text)) << text;
}

}  // namespace history_test
}  // namespace divvy::samples
