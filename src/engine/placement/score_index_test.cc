#include "engine/placement/score_index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/placement/test_random.h"

namespace divvy::placement {
namespace score_index_test {

TEST(ScoreIndex, FindsTheFirstOfTheBestAfterAnyChange) {
  for (const std::size_t nodes : {1u, 31u, 32u, 33u, 1000u, 1025u, 3000u}) {
    ScoreIndex index(std::vector<Score>(nodes, kNoRoom));
    EXPECT_EQ(index.best(), kNoRoom);
    std::vector<Score> plain(nodes, kNoRoom);
    TestRandom random(nodes);
    for (int change = 0; change < 600; ++change) {
      const auto node = static_cast<std::size_t>(random.Below(static_cast<int>(nodes)));
      const auto score = static_cast<Score>(random.Below(5) - 1);
      plain[node] = score;
      index.Set(node, score);
      const auto best = std::ranges::max_element(plain);
      ASSERT_EQ(index.best(), *best);
      if (*best == kNoRoom) continue;
      ASSERT_EQ(index.First(), static_cast<std::size_t>(best - plain.begin()));
    }
  }
}

TEST(ScoreIndex, BuildingAtOnceEqualsBuildingOneByOne) {
  for (const std::size_t nodes : {1u, 32u, 33u, 1025u}) {
    TestRandom random(nodes);
    std::vector<Score> scores(nodes);
    for (Score& score : scores) score = static_cast<Score>(random.Below(40) - 1);
    const ScoreIndex index(scores);
    const auto best = std::ranges::max_element(scores);
    ASSERT_EQ(index.best(), *best);
    EXPECT_EQ(index.First(), static_cast<std::size_t>(best - scores.begin()));
    for (std::size_t node = 0; node < nodes; ++node) ASSERT_EQ(index.At(node), scores[node]);
  }
}

}  // namespace score_index_test
}  // namespace divvy::placement
