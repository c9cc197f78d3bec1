#include "keeper/drivers/gpu_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace divvy::keeper {
namespace gpu_map_test {

GpuUuid Gpu(unsigned char number) {
  GpuUuid uuid{};
  uuid[15] = number;
  return uuid;
}

TEST(GpuMap, UuidsAreConvertedToTheDriversBytes) {
  const auto uuid = ParseGpuUuid("GPU-00010203-0405-0607-0809-0a0B0c0d0eff");
  ASSERT_TRUE(uuid);
  EXPECT_EQ((*uuid)[1], 1);
  EXPECT_EQ((*uuid)[11], 0x0b);
  EXPECT_EQ((*uuid)[15], 0xff);
  for (const char* wrong : {"", "GPU-", "MIG-00010203-0405-0607-0809-0a0b0c0d0eff", "GPU-00010203-0405-0607-0809",
                            "GPU-00010203-0405-0607-0809-0a0b0c0d0eff00", "GPU-00010203-0405-0607-0809-0a0b0c0d0egg"})
    EXPECT_FALSE(ParseGpuUuid(wrong)) << wrong;
}

TEST(GpuMap, EveryGpuOfTheDriverIsOnceASourceAndOnceATarget) {
  const std::vector<GpuUuid> all = {Gpu(0), Gpu(1), Gpu(2), Gpu(3)};
  const auto map = CompleteGpuMap(all, {{Gpu(0), Gpu(3)}, {Gpu(1), Gpu(2)}});
  ASSERT_TRUE(map);
  std::set<GpuUuid> olds;
  std::set<GpuUuid> news;
  for (const auto& [from, to] : *map) {
    olds.insert(from);
    news.insert(to);
  }
  EXPECT_EQ(map->size(), 4u);
  EXPECT_EQ(olds.size(), 4u);
  EXPECT_EQ(news.size(), 4u);
  EXPECT_EQ(map->at(0), std::pair(Gpu(0), Gpu(3)));
  EXPECT_EQ(map->at(1), std::pair(Gpu(1), Gpu(2)));
}

TEST(GpuMap, OtherGpusStayWhereTheyAre) {
  const auto map = CompleteGpuMap({Gpu(0), Gpu(1), Gpu(2)}, {{Gpu(0), Gpu(1)}});
  ASSERT_TRUE(map);
  EXPECT_NE(std::find(map->begin(), map->end(), std::pair(Gpu(1), Gpu(0))), map->end());
  EXPECT_NE(std::find(map->begin(), map->end(), std::pair(Gpu(2), Gpu(2))), map->end());
}

TEST(GpuMap, WithoutAMoveTheMapIsEmpty) {
  const auto map = CompleteGpuMap({Gpu(0), Gpu(1)}, {{Gpu(1), Gpu(1)}});
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->empty());
}

TEST(GpuMap, RefusesMapsThatTheDriverWouldRefuse) {
  EXPECT_FALSE(CompleteGpuMap({Gpu(0)}, {{Gpu(0), Gpu(1)}}));
  EXPECT_FALSE(CompleteGpuMap({Gpu(0), Gpu(1), Gpu(2)}, {{Gpu(0), Gpu(2)}, {Gpu(1), Gpu(2)}}));
}

}  // namespace gpu_map_test
}  // namespace divvy::keeper
