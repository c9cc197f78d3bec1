#include "cli/reports/report_show.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace divvy::cli {
namespace report_show_test {

TEST(ReportShow, HoursAreInTheCallersTimeZoneOrNameTheirOwn) {
  ::setenv("TZ", "CET-1", 1);
  ::tzset();
  EXPECT_EQ(HourText("2026-03-01T23", false), "2026-03-02 00:00");
  EXPECT_EQ(HourText("2026-03-01T23", true), "2026-03-01T23:00Z");
  EXPECT_EQ(HourText("all", false), "all");
  EXPECT_EQ(HourText("", true), "");
  ::unsetenv("TZ");
  ::tzset();
}

TEST(ReportShow, NotesThatUtcHoursDoNotMatchTheLocalHours) {
  ::setenv("TZ", "IST-5:30", 1);
  ::tzset();
  EXPECT_EQ(HoursNote("hour", 1'772'366'400),
            " Rows are hours of UTC, which in the local time zone (+0530) do not begin on the hour.");
  EXPECT_EQ(HoursNote("user", 1'772'366'400), "");
  ::setenv("TZ", "CET-1", 1);
  ::tzset();
  EXPECT_EQ(HoursNote("hour", 1'772'366'400), "");
}

TEST(ReportShow, WithoutAStartTimeNothingRanBeforeTheEnd) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(NothingRanText(0, 1'772'366'400), "Nothing ran before 2026-03-01 12:00.");
  EXPECT_EQ(NothingRanText(1'772'362'800, 1'772'366'400), "Nothing ran from 2026-03-01 11:00 to 2026-03-01 12:00.");
}

TEST(ReportShow, UnknownNumbersAreEmptyInCsv) {
  EXPECT_EQ(Numbers{true}.Unknown(), "");
  EXPECT_EQ(kForPeople.Unknown(), "-");
}

}  // namespace report_show_test
}  // namespace divvy::cli
