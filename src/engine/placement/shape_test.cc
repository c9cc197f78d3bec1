#include "engine/placement/shape.h"

#include <gtest/gtest.h>

#include "engine/placement/test_random.h"

namespace divvy::placement {
namespace shape_test {

Shape Gpus(int count, int parts = kGpuParts) {
  Shape shape;
  shape.gpus = static_cast<std::int16_t>(count);
  shape.parts = static_cast<std::int16_t>(parts);
  return shape;
}

TEST(NodeState, FitsWhatEachResourceAllows) {
  NodeState node = MakeNode(8000, 4096, 2, 3);
  EXPECT_TRUE(Fits(node, Gpus(2)));
  EXPECT_FALSE(Fits(node, Gpus(3)));
  Shape shape = Gpus(1, 3000);
  shape.cpu_milli = 8001;
  EXPECT_FALSE(Fits(node, shape));
  shape.cpu_milli = 8000;
  shape.memory_mib = 4097;
  EXPECT_FALSE(Fits(node, shape));
  shape.memory_mib = 4096;
  EXPECT_TRUE(Fits(node, shape));
  shape.models = 1u << 2;
  EXPECT_FALSE(Fits(node, shape));
  shape.models = 1u << 3;
  EXPECT_TRUE(Fits(node, shape));
}

TEST(NodeState, TwoHalvesOfDifferentGpusAreNotAWholeGpu) {
  NodeState node = MakeNode(8000, 4096, 2, 0);
  Take(node, Gpus(1, 5000), AtGpus(0b01));
  Take(node, Gpus(1, 5000), AtGpus(0b10));
  EXPECT_EQ(node.gpu_free, kGpuParts);
  EXPECT_FALSE(Fits(node, Gpus(1)));
  EXPECT_TRUE(Fits(node, Gpus(2, 5000)));
  EXPECT_FALSE(Fits(node, Gpus(2, 5010)));
}

TEST(NodeState, ReleaseUndoesTake) {
  TestRandom random(1);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Shape> shapes = random.Shapes(20);
    NodeState node = random.UsedNode(3, shapes);
    for (const Shape& shape : shapes) {
      if (!Fits(node, shape)) continue;
      const NodeState before = node;
      const GpuPlace gpus = shape.gpus == 0 ? GpuPlace() : TightestGpus(node, shape);
      Take(node, shape, gpus);
      EXPECT_EQ(node.gpu_free, before.gpu_free - shape.gpu_parts());
      Release(node, shape, gpus);
      EXPECT_EQ(node, before);
    }
  }
}

TEST(GpuChoice, TightestRoomiestAndFirstBreakTiesByLowerIndex) {
  NodeState node = MakeNode(8000, 4096, 4, 0);
  Take(node, Gpus(1, 4000), AtGpus(0b0010));
  Take(node, Gpus(1, 4000), AtGpus(0b1000));
  EXPECT_EQ(TightestGpus(node, Gpus(1, 5000)), AtGpus(0b0010));
  EXPECT_EQ(TightestGpus(node, Gpus(1, 7000)), AtGpus(0b0001));
  EXPECT_EQ(RoomiestGpus(node, Gpus(1, 5000)), AtGpus(0b0001));
  EXPECT_EQ(FirstGpus(node, Gpus(2)), AtGpus(0b0101));
  EXPECT_EQ(TightestGpus(node, Gpus(3, 5000)), AtGpus(0b1011));
}

TEST(GpuChoice, ReachesEveryGpuOfALargeNode) {
  NodeState node = MakeNode(8000, 4096, 64, 0);
  EXPECT_EQ(FirstGpus(node, Gpus(64)), AtGpus(~std::uint64_t{0}));
  Take(node, Gpus(63), {GpuSet::FirstN(63)});
  EXPECT_EQ(node.whole, 1);
  EXPECT_EQ(TightestGpus(node, Gpus(1, 5000)), AtGpus(std::uint64_t{1} << 63));
  const NodeState copy = node;
  Take(node, Gpus(1, 5000), {GpuSet::Only(63)});
  EXPECT_EQ(copy.gpu_free, kGpuParts);
  EXPECT_NE(copy, node);
  Release(node, Gpus(1, 5000), {GpuSet::Only(63)});
  EXPECT_EQ(copy, node);
}

TEST(ShapeKind, FractionsAndGpuCountsHaveTheirOwnKinds) {
  EXPECT_EQ(KindOf(Gpus(0, 0)), 0);
  EXPECT_EQ(KindOf(Gpus(1, 9990)), 1);
  EXPECT_EQ(KindOf(Gpus(1)), 2);
  EXPECT_EQ(KindOf(Gpus(2)), 3);
  EXPECT_EQ(KindOf(Gpus(4)), 4);
  EXPECT_EQ(KindOf(Gpus(8)), 5);
}

}  // namespace shape_test
}  // namespace divvy::placement
