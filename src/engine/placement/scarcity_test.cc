#include "engine/placement/scarcity.h"

#include <gtest/gtest.h>

namespace divvy::placement {
namespace scarcity_test {

WeightedShape Whole(ModelSet models, std::int64_t weight, int cpu_milli = 0) {
  Shape shape;
  shape.gpus = 1;
  shape.parts = kGpuParts;
  shape.models = models;
  shape.cpu_milli = cpu_milli;
  return {shape, weight};
}

// So many requests that the average has no effect.
constexpr double kMany = 1e9;

TEST(Scarcity, IsZeroIfNoRequestNamesAModel) {
  EXPECT_EQ(ScarcityByModel({Whole(kAnyModel, 5)}, {kGpuParts, 3 * kGpuParts}, 5), (std::vector<double>{0, 0}));
  EXPECT_EQ(ScarcityByModel({Whole(0b11, 5)}, {kGpuParts, 3 * kGpuParts}, 5), (std::vector<double>{0, 0}));
  EXPECT_EQ(ScarcityByModel({}, {kGpuParts}, 0), (std::vector<double>{0}));
}

TEST(Scarcity, IsDemandPerCapacityIfDemandFillsTheFleet) {
  // 10 GPUs. Half of the demand requires model 0, which has 2 GPUs: a demand of five GPUs for two.
  const auto contest = ScarcityByModel({Whole(0b01, 5), Whole(kAnyModel, 5)}, {2 * kGpuParts, 8 * kGpuParts}, kMany);
  EXPECT_NEAR(contest[0], 2.5, 1e-3);
  EXPECT_NEAR(contest[1], 0, 1e-3);
}

TEST(Scarcity, SpreadsDemandOverTheAllowedModelsByCapacity) {
  const auto contest =
      ScarcityByModel({Whole(0b011, 4), Whole(kAnyModel, 4)}, {kGpuParts, 3 * kGpuParts, 4 * kGpuParts}, kMany);
  EXPECT_NEAR(contest[0], contest[1], 1e-3);
  EXPECT_NEAR(contest[0], 1, 1e-3);
  EXPECT_NEAR(contest[2], 0, 1e-3);
}

TEST(Scarcity, AModelWithTooFewRequestsToJudgeCountsAsTheAverage) {
  // Model 1 is rare. That none of ten requests names it says nothing; for a hundred thousand it would.
  const Demand demand = {Whole(0b01, 1), Whole(kAnyModel, 4)};
  const auto early = ScarcityByModel(demand, {99 * kGpuParts, kGpuParts}, 10);
  EXPECT_NEAR(early[1], 0.2, 0.01);
  const auto late = ScarcityByModel(demand, {99 * kGpuParts, kGpuParts}, 100'000);
  EXPECT_LT(late[1], 0.01);
  EXPECT_NEAR(late[0], 0.2, 0.01);
}

TEST(Scarcity, APriceDoesNotDependOnHowAModelIsDividedIntoClasses) {
  // Model 1 as one kind, and as two kinds that no request distinguishes; then one of the two is requested.
  const auto whole = ScarcityByModel({Whole(0b10, 1), Whole(kAnyModel, 4)}, {6 * kGpuParts, 4 * kGpuParts}, 10);
  const std::vector<std::int64_t> divided = {6 * kGpuParts, 3 * kGpuParts, kGpuParts};
  const auto pieces = ScarcityByModel({Whole(0b110, 1), Whole(kAnyModel, 4)}, divided, 10, {0, 1, 1});
  EXPECT_EQ(pieces, (std::vector<double>{whole[0], whole[1], whole[1]}));
  const auto apart = ScarcityByModel({Whole(0b100, 1), Whole(kAnyModel, 4)}, divided, 10, {0, 1, 1});
  EXPECT_GT(apart[2], apart[1]);
}

TEST(CpuPerGpu, IsTheMeanOverGpusWithoutCpuOnlyRequests) {
  Shape cpu;
  cpu.cpu_milli = 99'000;
  EXPECT_EQ(CpuMilliPerGpu({Whole(kAnyModel, 3, 4000), Whole(kAnyModel, 1, 8000), {cpu, 7}}), 5000);
  EXPECT_EQ(CpuMilliPerGpu({{cpu, 7}}), 0);
}

}  // namespace scarcity_test
}  // namespace divvy::placement
