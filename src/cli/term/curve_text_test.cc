#include "cli/term/curve_text.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace curve_text_test {

TEST(Curve, HeightFollowsTheValues) {
  EXPECT_EQ(Sparkline({0, 0.5, 1, std::nullopt, 2, -1}, 0, 1), "▁▄█ █▁");
  const auto lines = DrawCurve({0, 0.5, 0.75, 1}, {0, 1, 2});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "  ▄█");
  EXPECT_EQ(lines[1], "▁███");
}

TEST(Curve, CanBeDrawnInAscii) {
  EXPECT_EQ(Sparkline({0, 0.5, 1, std::nullopt}, 0, 1, true), "_-# ");
  const auto lines = DrawCurve({0, 0.75, 1}, {0, 1, 2, true});
  EXPECT_EQ(lines[0] + "|" + lines[1], " -#|_##");
}

TEST(Curve, AdjacentValuesAreMergedIfThereIsTooLittleRoom) {
  EXPECT_EQ(Neighbours(68, 68), 1U);
  EXPECT_EQ(Neighbours(69, 68), 2U);
  EXPECT_EQ(Neighbours(0, 68), 1U);
  EXPECT_EQ(Joined({1, 3, std::nullopt, 5, std::nullopt, std::nullopt, 7}, 2), (Values{2, 5, std::nullopt, 7}));
  EXPECT_EQ(Joined({1, std::nullopt}, 1), (Values{1, std::nullopt}));
}

TEST(Curve, ASingleValueIsDrawnAtFullHeight) { EXPECT_EQ(Sparkline({5, 5}, 5, 5), "██"); }

TEST(MetricText, ShowsAUnit) {
  EXPECT_EQ(MetricText(0.825, "ratio"), "82%");
  EXPECT_EQ(MetricText(664.2, "watts"), "664 W");
  EXPECT_EQ(MetricText(1.98e9, "hertz"), "1.98 GHz");
  EXPECT_EQ(MetricText(345e6, "hertz"), "345 MHz");
  EXPECT_EQ(MetricText(12, "bits"), "power cap, hardware slowdown");
  EXPECT_EQ(MetricText(0.000123456, ""), "0.0001235");
  EXPECT_EQ(MetricText(123456, ""), "123456") << "steps are whole";
}

}  // namespace curve_text_test
}  // namespace divvy::cli
