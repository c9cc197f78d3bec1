#include "wire/http/exposition.h"

#include <gtest/gtest.h>

#include <array>

namespace divvy::wire {
namespace exposition_test {

std::string Written(Exposed form) {
  Exposition out(form);
  out.Begin("divvy_power_watts", Exposition::Kind::kGauge, "watts", "What \"it\" draws.\nNow");
  out.Add({{"node", "a\"b\\c\nd"}, {"gpu", "0"}}, 70.5);
  out.Begin("divvy_nothing", Exposition::Kind::kGauge, "", "Of which there is nothing.");
  out.Begin("divvy_jobs", Exposition::Kind::kCounter, "", "Jobs.");
  out.Add({}, 3);
  out.Begin("DCGM_ENERGY", Exposition::Kind::kForeignCounter, "", "Of another.");
  out.Add({}, 4);
  out.Begin("divvy_wait_seconds", Exposition::Kind::kHistogram, "seconds", "Waits.");
  constexpr std::array<double, 2> kBounds = {0.5, 1};
  constexpr std::array<std::uint64_t, 3> kCounts = {1, 0, 2};
  out.AddHistogram({}, kBounds, kCounts, 7.5);
  return out.Take();
}

TEST(Exposition, MatchesThePrometheusFormat) {
  EXPECT_EQ(Written(Exposed::kPrometheus),
            "# TYPE divvy_power_watts gauge\n"
            "# HELP divvy_power_watts What \"it\" draws.\\nNow\n"
            "divvy_power_watts{node=\"a\\\"b\\\\c\\nd\",gpu=\"0\"} 70.5\n"
            "# TYPE divvy_jobs_total counter\n"
            "# HELP divvy_jobs_total Jobs.\n"
            "divvy_jobs_total 3\n"
            "# TYPE DCGM_ENERGY counter\n"
            "# HELP DCGM_ENERGY Of another.\n"
            "DCGM_ENERGY 4\n"
            "# TYPE divvy_wait_seconds histogram\n"
            "# HELP divvy_wait_seconds Waits.\n"
            "divvy_wait_seconds_bucket{le=\"0.5\"} 1\n"
            "divvy_wait_seconds_bucket{le=\"1\"} 1\n"
            "divvy_wait_seconds_bucket{le=\"+Inf\"} 3\n"
            "divvy_wait_seconds_sum 7.5\n"
            "divvy_wait_seconds_count 3\n");
}

TEST(Exposition, MatchesTheOpenMetricsFormat) {
  const std::string text = Written(Exposed::kOpenMetrics);
  EXPECT_NE(text.find("# TYPE divvy_jobs counter\n# HELP divvy_jobs Jobs.\ndivvy_jobs_total 3\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE DCGM_ENERGY unknown\n# HELP DCGM_ENERGY Of another.\nDCGM_ENERGY 4\n"),
            std::string::npos);
  EXPECT_NE(text.find("# UNIT divvy_power_watts watts\n"), std::string::npos);
  EXPECT_NE(text.find("What \\\"it\\\" draws."), std::string::npos);
  EXPECT_TRUE(text.ends_with("divvy_wait_seconds_count 3\n# EOF\n"));
}

TEST(Exposition, FollowsTheAcceptHeader) {
  EXPECT_EQ(ExposedBy("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"),
            Exposed::kOpenMetrics);
  EXPECT_EQ(ExposedBy("text/plain"), Exposed::kPrometheus);
  EXPECT_EQ(ExposedBy(""), Exposed::kPrometheus);
  const std::string open = "application/openmetrics-text";
  EXPECT_EQ(ExposedBy(open + ";q=0, text/plain"), Exposed::kPrometheus);
  EXPECT_EQ(ExposedBy(open + ";q=0"), Exposed::kPrometheus) << "there is nothing else to give";
  EXPECT_EQ(ExposedBy(open + "; q=0.1, text/plain; q=0.9"), Exposed::kPrometheus);
  EXPECT_EQ(ExposedBy("text/plain;q=0.4, " + open + ";version=1.0.0;q=0.5, */*;q=0.1"), Exposed::kOpenMetrics);
  EXPECT_EQ(ExposedBy("Application/OpenMetrics-Text, */*"), Exposed::kOpenMetrics);
  EXPECT_EQ(ExposedBy("*/*"), Exposed::kPrometheus);
}

}  // namespace exposition_test
}  // namespace divvy::wire
