#include "base/time.h"

#include <gtest/gtest.h>

#include <limits>

namespace divvy {
namespace time_test {

TEST(Time, EveryMicrosecondSurvivesTheConversionToSeconds) {
  // This step size eventually covers all fractions. Truncating would lose a microsecond about every second time.
  for (std::int64_t microseconds = 1'790'000'000'000'000; microseconds < 1'790'000'100'000'000;
       microseconds += 99'991) {
    const Time time{std::chrono::microseconds(microseconds)};
    ASSERT_EQ(TimeFromSeconds(ToSeconds(time)), time) << microseconds;
  }
}

TEST(Time, RoundsToTheNearestMicrosecond) {
  EXPECT_EQ(TimeFromSeconds(0.0000014), Time(std::chrono::microseconds(1)));
  EXPECT_EQ(TimeFromSeconds(0.0000016), Time(std::chrono::microseconds(2)));
  EXPECT_EQ(TimeFromSeconds(-0.0000016), Time(std::chrono::microseconds(-2)));
}

TEST(Time, SecondsOutOfRangeBecomeTheNearestTime) {
  EXPECT_EQ(TimeFromSeconds(1e300), kNever);
  EXPECT_EQ(TimeFromSeconds(std::numeric_limits<double>::infinity()), kNever);
  EXPECT_EQ(TimeFromSeconds(-1e300), Time::min());
  EXPECT_EQ(TimeFromSeconds(std::numeric_limits<double>::quiet_NaN()), kNoTime);
}

}  // namespace time_test
}  // namespace divvy
