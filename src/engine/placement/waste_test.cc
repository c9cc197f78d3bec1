#include "engine/placement/waste.h"

#include <gtest/gtest.h>

#include "engine/placement/test_random.h"

namespace divvy::placement {
namespace {

WeightedShape Share(int milli, std::int64_t weight) {
  Shape shape;
  shape.gpus = 1;
  shape.milli = static_cast<std::int16_t>(milli);
  return {shape, weight};
}

TEST(WastePrice, WhatNothingCanFillCostsAWholeGpu) {
  const WastePrice price({Share(810, 10)});
  EXPECT_EQ(price.SizeValue(810), WastePrice::kGpu);
  EXPECT_EQ(price.RoomValue(809), 0);
  EXPECT_EQ(price.RoomValue(1000), WastePrice::kGpu);
  EXPECT_DOUBLE_EQ(price.gpus_needed(), 10);
  EXPECT_DOUBLE_EQ(price.gpus_asked(), 8.1);
}

TEST(WastePrice, FewSmallOnesBesideManyLargeOnesAreFree) {
  const WastePrice price({Share(810, 10), Share(190, 1)});
  EXPECT_EQ(price.SizeValue(810), WastePrice::kGpu);
  EXPECT_EQ(price.SizeValue(190), 0);
  EXPECT_DOUBLE_EQ(price.gpus_needed(), 10);
}

TEST(WastePrice, HalvesAreWorthHalfAndLoseWhereTheySpoilAThird) {
  const WastePrice price({Share(500, 100), Share(330, 300)});
  EXPECT_NEAR(static_cast<double>(price.SizeValue(500)), 500'000, 1);
  EXPECT_NEAR(static_cast<double>(price.SizeValue(330)), 333'333, 1);
  EXPECT_EQ(price.Loss(500, 500), 0);
  EXPECT_NEAR(static_cast<double>(price.Loss(1000, 330)), 0, 2);
  // A third in a half-free GPU leaves 170 for nobody: a sixth of a GPU is lost.
  EXPECT_NEAR(static_cast<double>(price.Loss(500, 330)), 166'667, 2);
}

TEST(WastePrice, ThePricesPayForTheGpusThatTheDemandNeeds) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    TestRandom random(seed);
    Demand demand;
    for (int milli = 30 + random.Below(90); milli < 1000; milli += 10 + random.Below(120))
      demand.push_back(Share(milli, 1 + random.Below(1000)));
    const WastePrice price(demand);
    // Strong duality: what the demand is worth at these prices is what it needs.
    double paid = 0, whole = 0;
    for (const auto& [shape, weight] : demand) {
      paid += static_cast<double>(weight * price.SizeValue(shape.milli)) / WastePrice::kGpu;
      whole += static_cast<double>(weight);
    }
    EXPECT_GE(price.gpus_needed(), price.gpus_asked() - 1e-6) << seed;
    EXPECT_LE(price.gpus_needed(), whole) << seed;
    EXPECT_NEAR(paid, price.gpus_needed(), price.gpus_needed() * 1e-3) << seed;
    EXPECT_NEAR(static_cast<double>(price.RoomValue(kGpuMilli)), WastePrice::kGpu, 2) << seed;
    for (int room = 0; room <= kGpuMilli; room += 7) {
      for (int milli = 1; milli <= room; milli += 11) ASSERT_GE(price.Loss(room, milli), 0) << room << " " << milli;
    }
  }
}

TEST(WastePrice, ManyDistinctSizesAreGroupedAndStillPriced) {
  Demand demand;
  for (int milli = 101; milli < 900; milli += 3) demand.push_back(Share(milli, 5));
  const WastePrice price(demand);
  EXPECT_GE(price.gpus_needed(), price.gpus_asked());
  EXPECT_NEAR(static_cast<double>(price.RoomValue(kGpuMilli)), WastePrice::kGpu, 2);
}

TEST(WastePrice, WithoutSharesNothingIsLost) {
  const WastePrice price({});
  EXPECT_EQ(price.Loss(1000, 10), 0);
  EXPECT_EQ(price.gpus_needed(), 0);
}

}  // namespace
}  // namespace divvy::placement
