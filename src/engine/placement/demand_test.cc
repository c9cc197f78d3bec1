#include "engine/placement/demand.h"

#include <gtest/gtest.h>

namespace divvy::placement {
namespace demand_test {

Shape Cpu(int cpu_milli, int memory_mib = 0) {
  Shape shape;
  shape.cpu_milli = cpu_milli;
  shape.memory_mib = memory_mib;
  return shape;
}

TEST(Demand, CountsRequestsRegardlessOfMemory) {
  const Demand demand = CountShapes({Cpu(2, 10), Cpu(1), Cpu(2, 20)});
  ASSERT_EQ(demand.size(), 2u);
  EXPECT_EQ(demand[0].shape, Cpu(1));
  EXPECT_EQ(demand[1].shape, Cpu(2));
  EXPECT_EQ(demand[1].weight, 2);
}

TEST(Demand, TypicalIsTheSmallestSetThatCoversThePercentage) {
  const Demand demand = {{Cpu(1), 4}, {Cpu(2), 1}, {Cpu(3), 90}, {Cpu(4), 5}};
  const Demand typical = Typical(demand, 95);
  ASSERT_EQ(typical.size(), 2u);
  EXPECT_EQ(typical[0].shape, Cpu(3));
  EXPECT_EQ(typical[1].shape, Cpu(4));
  EXPECT_EQ(Typical(demand, 96).size(), 3u);
  EXPECT_EQ(Typical(demand, 100).size(), 4u);
  EXPECT_TRUE(Typical({}, 95).empty());
}

TEST(RunningDemand, HalvesDemandAfterOneHalfLife) {
  RunningDemand running(100);
  running.Add(Cpu(1));
  for (int i = 0; i < 99; ++i) running.Add(Cpu(2));
  running.Add(Cpu(3));
  const Demand demand = running.Snapshot();
  ASSERT_EQ(demand.size(), 3u);
  EXPECT_NEAR(static_cast<double>(demand[2].weight) / static_cast<double>(demand[0].weight), 2, 0.01);
  EXPECT_EQ(running.seen(), 101);
}

TEST(RunningDemand, ForgetsOldDemandAndStaysInRange) {
  RunningDemand running(10);
  running.Add(Cpu(1));
  for (int i = 0; i < 5000; ++i) running.Add(Cpu(2));
  const Demand demand = running.Snapshot();
  ASSERT_EQ(demand.size(), 1u);
  EXPECT_EQ(demand[0].shape, Cpu(2));
  EXPECT_EQ(demand[0].weight, 1 << 20);
}

}  // namespace demand_test
}  // namespace divvy::placement
