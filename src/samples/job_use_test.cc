#include "samples/job_use.h"

#include <gtest/gtest.h>

#include <map>

#include "samples/track.h"

namespace divvy::samples {
namespace job_use_test {

constexpr Second kStart = 1'790'000'100;

TEST(JobUse, SumsThePartWithinThePeriod) {
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

TEST(JobUse, HoursAddUpToTheWhole) {
  Track track;
  constexpr Second kHour = 3600;
  const Second begin = kStart - kStart % kHour + 1800;
  for (Second i = 0; i < 2 * kHour; i += 10)
    track.Add(begin + i, {{Metric::kGpuUtilization, i < 1800 ? 0.0 : 0.5, ""}, {Metric::kCpuCores, 2, ""}});
  std::map<Second, JobUse> hours;
  AddUseByHour(track.block(), 0, begin + 10 * kHour, [&](Second hour) -> JobUse& { return hours[hour]; });
  ASSERT_EQ(hours.size(), 3U);
  EXPECT_EQ(hours.begin()->first, begin - 1800);
  JobUse whole;
  AddUse(track.block(), 0, begin + 10 * kHour, whole);
  double seconds = 0;
  double idle = 0;
  for (const auto& [hour, use] : hours) {
    EXPECT_EQ(use.machines, 1);
    seconds += use.seconds;
    idle += use.idle_seconds;
  }
  EXPECT_DOUBLE_EQ(seconds, whole.seconds);
  EXPECT_DOUBLE_EQ(idle, whole.idle_seconds);
  EXPECT_NEAR(hours.begin()->second.seconds, 1800, 1);
  EXPECT_NEAR(hours.begin()->second.idle_seconds, 1800, 20);
  EXPECT_NEAR(std::next(hours.begin())->second.use_seconds, 1800, 20);
}

TEST(JobUse, TheIdleTailIsMeasuredOnEachNode) {
  Track track;
  Track other;
  for (Second i = 0; i < 300; ++i) {
    track.Add(kStart + i, {{Metric::kGpuUtilization, i < 100 || i > 120 ? 0.0 : 0.5, ""}});
    other.Add(kStart + i, {{Metric::kGpuUtilization, i < 240 ? 1.0 : 0.0, ""}});
  }
  JobUse use;
  AddUse(track.block(), 0, kStart + 1000, use);
  EXPECT_DOUBLE_EQ(use.idle_seconds, 279);
  EXPECT_DOUBLE_EQ(use.idle_tail, 179);
  AddUse(other.block(), 0, kStart + 1000, use);
  EXPECT_DOUBLE_EQ(use.idle_tail, 60);
  // Idle time before a gap in the samples does not count.
  Track gap;
  for (Second i = 0; i < 200; ++i) gap.Add(kStart + (i < 100 ? i : i + 3600), {{Metric::kGpuUtilization, 0, ""}});
  JobUse after;
  AddUse(gap.block(), 0, kStart + 10'000, after);
  EXPECT_LT(after.idle_tail, 200 - 60);
}

TEST(JobUse, TimeOfAPausedJobIsUnknown) {
  Track track;
  for (Second i = 0; i < 100; ++i) {
    const bool is_paused = i >= 10 && i < 60;
    track.Add(kStart + i, is_paused ? std::vector<Reading>{{Metric::kGpuMemoryUsed, 1e9, ""}}
                                    : std::vector<Reading>{{Metric::kGpuUtilization, 0, ""},
                                                           {Metric::kGpuMemoryUsed, 1e9, ""},
                                                           {Metric::kCpuCores, 2, ""}});
  }
  JobUse use;
  AddUse(track.block(), 0, kStart + 1000, use);
  EXPECT_DOUBLE_EQ(use.seconds, 50);
  EXPECT_DOUBLE_EQ(use.idle_seconds, 50);
  EXPECT_DOUBLE_EQ(use.idle_tail, 50);
  EXPECT_DOUBLE_EQ(use.core_seconds, 100);
}

TEST(JobUse, BetweenRareObservationsOnlyTheFirstMinuteIsKnown) {
  Track track;
  for (Second i = 0; i < 100; i += 10) track.Add(kStart + i, {{Metric::kGpuUtilization, 1, ""}});
  track.Add(kStart + 1000, {{Metric::kGpuUtilization, 1, ""}});
  JobUse use;
  AddUse(track.block(), 0, kStart + 5000, use);
  // The first minute of the gap counts as known, the rest does not.
  EXPECT_GE(use.seconds, 150);
  EXPECT_LE(use.seconds, 156);
  EXPECT_DOUBLE_EQ(use.use_seconds, use.seconds);
}

TEST(JobUse, AWeekOfCoarsePointsIsStillAWeek) {
  Track track;
  for (Second i = 0; i < 7 * 86'400; i += 10) track.Add(kStart + i, {{Metric::kGpuUtilization, 0.25, ""}});
  JobUse use;
  AddUse(track.block(), 0, kStart + 10 * 86'400, use);
  EXPECT_NEAR(use.seconds, 7 * 86'400, 2.0 * static_cast<double>(track.block().step));
  EXPECT_NEAR(use.use_seconds, use.seconds / 4, 1);
}

}  // namespace job_use_test
}  // namespace divvy::samples
