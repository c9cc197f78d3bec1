#include "model/gpus/gpu_portion.h"

#include <gtest/gtest.h>

namespace divvy {
namespace gpu_portion_test {

GpuPortion ByParts(int request, int limit = 0) {
  GpuPortion portion;
  portion.request = GpuShare(request);
  portion.limit = GpuShare(limit);
  return portion;
}

GpuPortion ByMemory(Bytes memory, Bytes limit = Bytes()) {
  GpuPortion portion;
  portion.memory = memory;
  portion.memory_limit = limit;
  return portion;
}

TEST(GpuPortion, NoFractionIsSmallerThanACudaContext) {
  for (const Bytes memory : {16_GiB, 24_GiB, 80_GiB, 192_GiB}) {
    const GpuShare least = SmallestParts(memory);
    EXPECT_GE(RequestedMemory(ByParts(least.ten_thousandths()), memory), kSmallestPart);
    EXPECT_LT(RequestedMemory(ByParts(least.ten_thousandths() - 5), memory), kSmallestPart);
    EXPECT_EQ(PartsOf(ByParts(least.ten_thousandths()), memory), least);
    EXPECT_GT(PartsOf(ByParts(least.ten_thousandths() - 5), memory), GpuShare(GpuShare::kWhole))
        << "does not fit there";
    EXPECT_LE(LeastGpuMemory(ByParts(least.ten_thousandths())), memory);
    EXPECT_GT(LeastGpuMemory(ByParts(least.ten_thousandths() - 5)), memory);
  }
  EXPECT_EQ(SmallestParts(Bytes(100)), GpuShare(GpuShare::kWhole));
}

TEST(GpuPortion, AChangeKeepsSettingsThatItDoesNotMention) {
  const GpuPortion half = ByParts(5'000, 8'000);
  EXPECT_EQ(Changed(half, ByParts(0, 6'000)), ByParts(5'000, 6'000));
  EXPECT_EQ(Changed(half, ByParts(2'500)), ByParts(2'500, 8'000));
  EXPECT_EQ(Changed(half, ByParts(9'000)), ByParts(9'000, 9'000)) << "a limit is at least the request";
  EXPECT_EQ(Changed(half, ByMemory(20_GiB)), ByMemory(20_GiB)) << "the other way to ask";
  EXPECT_EQ(Changed(ByMemory(20_GiB, 40_GiB), ByParts(5'000)), ByParts(5'000));
  GpuPortion time;
  time.compute = time.compute_limit = GpuShare(1'000);
  EXPECT_EQ(Changed(half, time).limit, GpuShare(8'000));
  EXPECT_EQ(ComputeText(Changed(half, time)), "0.1 of its time");
}

// Whatever the division of a GPU, its parts never add up to more bytes than it offers.
TEST(GpuPortion, FractionsOfOneGpuNeverAddUpToMoreThanItHas) {
  for (const Bytes memory : {80_GiB, 16_GiB, Bytes(23'028'826'112), Bytes(1'000'003)}) {
    for (const int parts : {1, 2, 3, 7, 10, 9'999, 10'000}) {
      Bytes sum;
      for (int i = 0; i < parts; ++i) sum += RequestedMemory(ByParts(10'000 / parts), memory);
      EXPECT_LE(sum, PortionedMemory(memory)) << parts;
    }
  }
}

TEST(GpuPortion, AMemoryRequestCountsAsTheFractionThatHoldsIt) {
  for (const Bytes memory : {1_GiB, 20_GiB, 39_GiB, Bytes(12'345'678'901)}) {
    const GpuShare parts = PartsOf(ByMemory(memory), 80_GiB);
    EXPECT_GE(RequestedMemory(ByParts(parts.ten_thousandths()), 80_GiB) + 8_MiB, memory);
    EXPECT_LE(RequestedMemory(ByParts(parts.ten_thousandths() - 1), 80_GiB), memory);
  }
  EXPECT_GT(PartsOf(ByMemory(80_GiB), 80_GiB), GpuShare(GpuShare::kWhole)) << "the driver keeps some";
  EXPECT_EQ(PartsOf(ByMemory(PortionedMemory(80_GiB)), 80_GiB), GpuShare(GpuShare::kWhole));
}

TEST(GpuPortion, ALimitIsNeverBelowTheRequestNorAboveTheGpu) {
  EXPECT_EQ(LimitOfMemory(ByParts(5'000), 80_GiB), RequestedMemory(ByParts(5'000), 80_GiB));
  EXPECT_EQ(LimitOfMemory(ByParts(2'500, 10'000), 80_GiB), PortionedMemory(80_GiB));
  EXPECT_EQ(LimitOfMemory(ByMemory(20_GiB), 80_GiB), 20_GiB);
  EXPECT_EQ(LimitOfMemory(ByMemory(20_GiB, 500_GiB), 80_GiB), PortionedMemory(80_GiB));
}

TEST(GpuPortion, ComputeFollowsMemoryUnlessItIsSetSeparately) {
  EXPECT_EQ(RequestedCompute(ByParts(2'500, 8'000), 80_GiB), GpuShare(2'500));
  EXPECT_EQ(LimitOfCompute(ByParts(2'500, 8'000)), GpuShare(8'000));
  EXPECT_EQ(LimitOfCompute(ByMemory(20_GiB)), GpuShare(10'000)) << "time that nobody uses cannot be kept";
  GpuPortion apart = ByParts(5'000);
  apart.compute = GpuShare(3'000);
  apart.compute_limit = GpuShare(10'000);
  EXPECT_EQ(RequestedCompute(apart, 80_GiB), GpuShare(3'000));
  EXPECT_EQ(LimitOfCompute(apart), GpuShare(10'000));
}

TEST(GpuPortion, IsShownAsItWasRequested) {
  EXPECT_EQ(PortionText(ByParts(2'500)), "0.25");
  EXPECT_EQ(PortionText(ByParts(3'333, 10'000)), "0.3333 to 1");
  EXPECT_EQ(PortionText(ByMemory(20_GiB, Bytes(42'949'672'960 + 536'870'912))), "20 to 40.5 GiB");
  EXPECT_EQ(PartsText(GpuShare(1)), "0.0001");
}

}  // namespace gpu_portion_test
}  // namespace divvy
