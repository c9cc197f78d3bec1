#include "platform/os/clock.h"

#include <gtest/gtest.h>

namespace divvy {
namespace clock_test {

TEST(Clock, TheLatestTimeIsNeverBeforeTheWallClockNorAnEarlierDaemons) {
  RealClock clock;
  EXPECT_GE(clock.Latest(), clock.Now());
  // Simulates a restart after the wall clock was set back by an hour.
  const Time earlier = clock.Now() + std::chrono::hours(1);
  clock.StartNotBefore(earlier);
  EXPECT_GE(clock.Latest(), earlier);
  EXPECT_LT(clock.Now(), earlier);
  clock.StartNotBefore(clock.Now() - std::chrono::hours(1));
  EXPECT_GE(clock.Latest(), clock.Now());
  EXPECT_LT(clock.Latest(), earlier);
}

}  // namespace clock_test
}  // namespace divvy
