#include "cli/report_show.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace divvy::cli {
namespace {

TEST(ReportShow, HoursAreInTheCallersTimeZoneOrSayTheirs) {
  ::setenv("TZ", "CET-1", 1);
  ::tzset();
  EXPECT_EQ(HourText("2026-03-01T23", false), "2026-03-02 00:00");
  EXPECT_EQ(HourText("2026-03-01T23", true), "2026-03-01T23:00Z");
  EXPECT_EQ(HourText("all", false), "all");
  EXPECT_EQ(HourText("", true), "");
  ::unsetenv("TZ");
  ::tzset();
}

}  // namespace
}  // namespace divvy::cli
