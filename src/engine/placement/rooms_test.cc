#include "engine/placement/rooms.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace divvy::placement {
namespace rooms_test {

TEST(Rooms, NeverSkipANodeThatHasRoom) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<NodeState> nodes;
  for (int i = 0; i < 150; ++i) nodes.push_back(MakeNode(8000, 1000, 4, i / 70));
  Rooms rooms(nodes.size());
  int passed_over = 0;
  for (int step = 0; step < 4000; ++step) {
    Shape shape;
    shape.cpu_milli = 1000 * below(9);
    shape.memory_mib = 100 * below(11);
    shape.gpus = static_cast<std::int16_t>(below(5));
    shape.parts = static_cast<std::int16_t>(shape.gpus == 0 ? 0 : below(2) == 0 ? kGpuParts : 1000 * (1 + below(9)));
    if (below(3) == 0) shape.models = ModelSet{1} << below(4);
    for (std::size_t block = 0; block < rooms.blocks(); ++block) {
      bool fits = false;
      for (std::size_t node = block * Rooms::kBlock; node < std::min((block + 1) * Rooms::kBlock, nodes.size()); ++node)
        fits = fits || Fits(nodes[node], shape);
      const bool may_fit = rooms.MayFit(block, nodes, shape);
      EXPECT_TRUE(may_fit || !fits);
      passed_over += !may_fit;
    }
    const auto changed = static_cast<std::size_t>(below(150));
    const int gpus = below(5);
    nodes[changed] = MakeNode(1000 * below(9), 100 * below(11), gpus, nodes[changed].model);
    rooms.Changed(changed);
  }
  EXPECT_GT(passed_over, 1000);
}

TEST(Rooms, ABlockWithoutEnoughWholeGpusOnOneNodeIsSkipped) {
  std::vector<NodeState> nodes(3, MakeNode(8000, 1000, 4, 0));
  Rooms rooms(nodes.size());
  Shape shape;
  shape.gpus = 4;
  shape.parts = kGpuParts;
  EXPECT_TRUE(rooms.MayFit(0, nodes, shape));
  Shape one = shape;
  one.gpus = 1;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    Take(nodes[node], one, AtGpus(1));
    rooms.Changed(node);
  }
  EXPECT_FALSE(rooms.MayFit(0, nodes, shape));
  EXPECT_TRUE(rooms.MayFit(0, nodes, one));
}

}  // namespace rooms_test
}  // namespace divvy::placement
