#include "engine/placement/waste.h"

#include <gtest/gtest.h>

#include "engine/placement/test_random.h"

namespace divvy::placement {
namespace waste_test {

WeightedShape Share(int parts, std::int64_t weight) {
  Shape shape;
  shape.gpus = 1;
  shape.parts = static_cast<std::int16_t>(parts);
  return {shape, weight};
}

TEST(WastePrice, RoomThatNoRequestCanFillCostsAWholeGpu) {
  const WastePrice price({Share(8100, 10)});
  EXPECT_EQ(price.SizeValue(8100), WastePrice::kGpu);
  EXPECT_EQ(price.RoomValue(8090), 0);
  EXPECT_EQ(price.RoomValue(10000), WastePrice::kGpu);
  EXPECT_DOUBLE_EQ(price.gpus_needed(), 10);
  EXPECT_DOUBLE_EQ(price.gpus_asked(), 8.1);
}

TEST(WastePrice, FewSmallFractionsBesideManyLargeOnesAreFree) {
  const WastePrice price({Share(8100, 10), Share(1900, 1)});
  EXPECT_EQ(price.SizeValue(8100), WastePrice::kGpu);
  EXPECT_EQ(price.SizeValue(1900), 0);
  EXPECT_DOUBLE_EQ(price.gpus_needed(), 10);
}

TEST(WastePrice, HalvesAreWorthHalfAGpuAndThirdsBesideThemWasteRoom) {
  const WastePrice price({Share(5000, 100), Share(3300, 300)});
  EXPECT_NEAR(static_cast<double>(price.SizeValue(5000)), 500'000, 1);
  EXPECT_NEAR(static_cast<double>(price.SizeValue(3300)), 333'333, 1);
  EXPECT_EQ(price.Loss(5000, 5000), 0);
  EXPECT_NEAR(static_cast<double>(price.Loss(10000, 3300)), 0, 2);
  // A third in a half-free GPU leaves 1,700 unusable parts: a sixth of a GPU is lost.
  EXPECT_NEAR(static_cast<double>(price.Loss(5000, 3300)), 166'667, 2);
}

TEST(WastePrice, PricesSumToTheGpusThatTheDemandNeeds) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    TestRandom random(seed);
    Demand demand;
    for (int parts = 300 + random.Below(900); parts < kGpuParts; parts += 100 + random.Below(1200))
      demand.push_back(Share(parts, 1 + random.Below(1000)));
    const WastePrice price(demand);
    // Strong duality: the demand's value at these prices equals the GPUs that it needs.
    double paid = 0, whole = 0;
    for (const auto& [shape, weight] : demand) {
      paid += static_cast<double>(weight * price.SizeValue(shape.parts)) / WastePrice::kGpu;
      whole += static_cast<double>(weight);
    }
    EXPECT_GE(price.gpus_needed(), price.gpus_asked() - 1e-6) << seed;
    EXPECT_LE(price.gpus_needed(), whole) << seed;
    EXPECT_NEAR(paid, price.gpus_needed(), price.gpus_needed() * 1e-3) << seed;
    EXPECT_NEAR(static_cast<double>(price.RoomValue(kGpuParts)), WastePrice::kGpu, 2) << seed;
    for (int room = 0; room <= kGpuParts; room += 71) {
      for (int parts = 1; parts <= room; parts += 111) ASSERT_GE(price.Loss(room, parts), 0) << room << " " << parts;
    }
  }
}

TEST(WastePrice, ManyDistinctSizesAreGroupedAndStillPriced) {
  Demand demand;
  for (int parts = 1010; parts < 9000; parts += 30) demand.push_back(Share(parts, 5));
  const WastePrice price(demand);
  EXPECT_GE(price.gpus_needed(), price.gpus_asked());
  EXPECT_NEAR(static_cast<double>(price.RoomValue(kGpuParts)), WastePrice::kGpu, 2);
}

TEST(WastePrice, WithoutFractionsNothingIsLost) {
  const WastePrice price({});
  EXPECT_EQ(price.Loss(10000, 100), 0);
  EXPECT_EQ(price.gpus_needed(), 0);
}

}  // namespace waste_test
}  // namespace divvy::placement
