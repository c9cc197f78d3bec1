#include "samples/job_use.h"

#include <gtest/gtest.h>

#include "samples/track.h"

namespace divvy::samples {
namespace {

constexpr Second kStart = 1'790'000'100;

TEST(JobUse, SumsWhatLiesInTheStretch) {
  Track track;
  for (Second i = 0; i < 100; ++i)
    track.Add(kStart + i, {{Metric::kGpuUtilization, i < 50 ? 0.0 : 0.5, ""},
                           {Metric::kGpuMemoryUsed, i == 60 ? 9e9 : 1e9, ""},
                           {Metric::kCpuCores, 2, ""},
                           {Metric::kGpuUtilization, 7, "loss"}});
  JobUse use;
  AddUse(track.block(), 0, kStart + 1000, use);
  EXPECT_EQ(use.machines, 1);
  EXPECT_DOUBLE_EQ(use.seconds, 100);
  EXPECT_DOUBLE_EQ(use.use_seconds, 25);
  EXPECT_DOUBLE_EQ(use.idle_seconds, 50);
  EXPECT_FLOAT_EQ(static_cast<float>(use.memory_peak), 9e9F);
  EXPECT_DOUBLE_EQ(use.core_seconds, 200);
  JobUse part;
  AddUse(track.block(), kStart + 40, kStart + 60, part);
  EXPECT_DOUBLE_EQ(part.seconds, 20);
  EXPECT_DOUBLE_EQ(part.idle_seconds, 10);
  EXPECT_FLOAT_EQ(static_cast<float>(part.memory_peak), 1e9F);
  JobUse none;
  AddUse(track.block(), kStart + 2000, kStart + 3000, none);
  EXPECT_EQ(none, JobUse());
}

TEST(JobUse, WhoLooksSeldomKnowsTheTimeBetween) {
  Track track;
  for (Second i = 0; i < 100; i += 10) track.Add(kStart + i, {{Metric::kGpuUtilization, 1, ""}});
  track.Add(kStart + 1000, {{Metric::kGpuUtilization, 1, ""}});
  JobUse use;
  AddUse(track.block(), 0, kStart + 5000, use);
  // The gap is known for a minute, the rest of it is not.
  EXPECT_GE(use.seconds, 150);
  EXPECT_LE(use.seconds, 156);
  EXPECT_DOUBLE_EQ(use.use_seconds, use.seconds);
}

TEST(JobUse, AWeekIsAWeekThoughItsPointsAreCoarse) {
  Track track;
  for (Second i = 0; i < 7 * 86'400; i += 10) track.Add(kStart + i, {{Metric::kGpuUtilization, 0.25, ""}});
  JobUse use;
  AddUse(track.block(), 0, kStart + 10 * 86'400, use);
  EXPECT_NEAR(use.seconds, 7 * 86'400, 2.0 * static_cast<double>(track.block().step));
  EXPECT_NEAR(use.use_seconds, use.seconds / 4, 1);
}

}  // namespace
}  // namespace divvy::samples
