#include "daemon/telemetry/reported_metrics.h"

#include <gtest/gtest.h>

namespace divvy {
namespace reported_metrics_test {

samples::Reading Said(const std::string& name, double value) { return {samples::Metric::kGpuUtilization, value, name}; }

TEST(ReportedMetrics, AreMatchedToTheSecondsOfTheirNode) {
  ReportedMetrics said;
  said.Add(17, 100, {Said("loss", 3), Said("step", 1)});
  said.Add(17, 100, {Said("loss", 2)});
  said.Add(17, 101, {Said("loss", 1)});
  said.Add(18, 100, {Said("acc", 1)});
  EXPECT_TRUE(said.Take(17, 99).empty());
  const auto taken = said.Take(17, 100);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken.front().at, 100);
  EXPECT_EQ(taken.front().readings, (std::vector{Said("loss", 2), Said("step", 1)}));
  EXPECT_EQ(said.jobs(), (std::vector<std::uint64_t>{17, 18}));
  EXPECT_EQ(said.Take(17, 200).size(), 1U);
  EXPECT_EQ(said.jobs(), (std::vector<std::uint64_t>{18}));
}

TEST(ReportedMetrics, OmittedLinesWithinASecondAreSummed) {
  using samples::Metric;
  ReportedMetrics said;
  said.Add(17, 100, {{Metric::kOwnLinesLeftOut, 10}, {Metric::kOwnNamesLeftOut, 1}, Said("loss", 3)});
  said.Add(17, 100, {{Metric::kOwnLinesLeftOut, 5}, Said("loss", 2)});
  const auto taken = said.Take(17, 100);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(
      taken.front().readings,
      (std::vector<samples::Reading>{{Metric::kOwnLinesLeftOut, 15}, {Metric::kOwnNamesLeftOut, 1}, Said("loss", 2)}));
}

TEST(ReportedMetrics, AClockThatWasSetBackKeepsTheOrder) {
  ReportedMetrics said;
  said.Add(17, 100, {Said("loss", 3)});
  said.Add(17, 90, {Said("loss", 2)});
  const auto taken = said.Take(17, 100);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken.front().readings, (std::vector{Said("loss", 2)}));
}

TEST(ReportedMetrics, AreLimitedAndForgotten) {
  ReportedMetrics said;
  for (samples::Second at = 1; at <= 2'000; ++at) said.Add(17, at, {Said("loss", 1)});
  said.Forget(2'000 + ReportedMetrics::kReach);
  EXPECT_FALSE(said.empty());
  EXPECT_EQ(said.Take(17, 2'000).size(), ReportedMetrics::kMostSeconds);
  said.Add(18, 5, {Said("loss", 1)});
  said.Forget(6 + ReportedMetrics::kReach);
  EXPECT_TRUE(said.empty());
}

}  // namespace reported_metrics_test
}  // namespace divvy
