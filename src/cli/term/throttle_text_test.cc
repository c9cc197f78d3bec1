#include "cli/term/throttle_text.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace throttle_text_test {

TEST(ThrottleText, DescribesEachReason) {
  EXPECT_EQ(ThrottleText(0), "none");
  EXPECT_EQ(ThrottleText(0x1), "none");
  EXPECT_EQ(ThrottleText(0x4), "power cap");
  EXPECT_EQ(ThrottleText(0x1FE),
            "clocks that were set, power cap, hardware slowdown, sync boost, heat (driver), heat "
            "(hardware), power brake, display clocks");
  EXPECT_EQ(ThrottleText(0x204), "power cap, an unknown reason");
}

TEST(ThrottleText, HeatAndPowerShortageAreSlowdownsButAPowerCapIsNot) {
  EXPECT_EQ(SlowdownText(0x4 | 0x2 | 0x1 | 0x200), "");
  EXPECT_EQ(SlowdownText(0x4 | 0x8 | 0x40), "slowed by hardware slowdown, heat (hardware)");
  EXPECT_EQ(SlowdownText(0x80), "slowed by power brake");
}

TEST(ThrottleText, CountsHowOftenEachReasonWasSeen) {
  EXPECT_EQ(ThrottleShares({0, std::nullopt, 1, 0}), "");
  EXPECT_EQ(ThrottleShares({4, 0x24, std::nullopt, 0, 4}), "power cap in 75%, heat (driver) in 25% of the samples");
}

TEST(ThrottleText, IsShownAtTheThrottledGpuOnly) {
  std::vector<wire::GpuView> gpus(3);
  for (std::int64_t i = 0; i < 3; ++i) gpus[static_cast<std::size_t>(i)].index = i;
  gpus[1].reason = "train of ada";
  wire::LatestAnswer latest;
  for (std::int64_t i = 0; i < 3; ++i) {
    wire::LatestGpu seen;
    seen.gpu = i;
    seen.values["gpu_throttle"] = i == 0 ? 0x4 : 0x20;
    latest.gpus.push_back(seen);
  }
  latest.gpus[2].node = "n1";
  AddSlowdowns(latest, gpus);
  EXPECT_EQ(gpus[0].reason, "");
  EXPECT_EQ(gpus[1].reason, "train of ada; slowed by heat (driver)");
  EXPECT_EQ(gpus[2].reason, "");
}

}  // namespace throttle_text_test
}  // namespace divvy::cli
