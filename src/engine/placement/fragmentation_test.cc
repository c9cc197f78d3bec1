#include "engine/placement/fragmentation.h"

#include <gtest/gtest.h>

#include "engine/placement/test_random.h"

namespace divvy::placement {
namespace fragmentation_test {

/// By the definition, request by request.
std::int64_t FragmentByDefinition(const NodeState& node, const Demand& typical) {
  std::int64_t sum = 0;
  for (const auto& [shape, weight] : typical) {
    Shape fits = shape;
    if (fits.gpus > 1) fits.parts = kGpuParts;
    if (shape.gpus == 0 || !Fits(node, fits)) {
      sum += weight * node.gpu_free;
      continue;
    }
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      const std::int64_t free = RoomOfGpu(node, gpu).free_parts;
      if (free < fits.parts) sum += weight * free;
    }
  }
  return sum;
}

TEST(Fragmentation, MatchesTheDefinitionOnRandomNodes) {
  constexpr int kModels = 3;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    TestRandom random(seed);
    const std::vector<Shape> shapes = random.Shapes(60);
    const Demand typical = Typical(CountShapes(shapes), 95);
    const Fragmentation fragmentation(typical, kModels);
    for (int i = 0; i < 100; ++i) {
      const NodeState node = random.UsedNode(kModels, shapes);
      ASSERT_EQ(fragmentation.Fragment(node), FragmentByDefinition(node, typical)) << "seed " << seed << " node " << i;
    }
  }
}

TEST(Fragmentation, WithoutDemandAllRoomIsFragmented) {
  const Fragmentation fragmentation({}, 1);
  EXPECT_EQ(fragmentation.Fragment(MakeNode(1000, 1000, 2, 0)), 2 * kGpuParts);
}

TEST(Fragmentation, CpuOnlyRequestsFragmentEveryGpuByTheirShareOfDemand) {
  Shape cpu, gpu;
  cpu.cpu_milli = 1000;
  gpu.gpus = 1;
  gpu.parts = kGpuParts;
  const Fragmentation fragmentation({{cpu, 1}, {gpu, 3}}, 1);
  EXPECT_EQ(fragmentation.total_weight(), 4);
  EXPECT_EQ(fragmentation.Fragment(MakeNode(8000, 1000, 1, 0)), kGpuParts);
}

}  // namespace fragmentation_test
}  // namespace divvy::placement
