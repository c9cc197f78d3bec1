#include "samples/block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace divvy::samples {
namespace block_test {

Column Of(Metric metric, std::vector<Point> points) { return {metric, "", std::move(points)}; }

void ExpectSame(const Block& a, const Block& b) {
  EXPECT_EQ(a.begin, b.begin);
  EXPECT_EQ(a.step, b.step);
  ASSERT_EQ(a.count, b.count);
  ASSERT_EQ(a.columns.size(), b.columns.size());
  for (std::size_t i = 0; i < a.columns.size(); ++i) {
    EXPECT_EQ(a.columns[i].name, b.columns[i].name);
    EXPECT_EQ(a.columns[i].metric, b.columns[i].metric);
    ASSERT_EQ(a.columns[i].points.size(), b.columns[i].points.size());
    const double quantum = a.columns[i].name.empty() ? FactsOf(a.columns[i].metric).quantum : 0;
    for (std::size_t k = 0; k < a.count; ++k) {
      const Point& x = a.columns[i].points[k];
      const Point& y = b.columns[i].points[k];
      ASSERT_EQ(IsPoint(x), IsPoint(y)) << "column " << i << " point " << k;
      if (!IsPoint(x)) continue;
      EXPECT_NEAR(x.mean, y.mean, quantum * 0.51 + std::abs(x.mean) * 1e-6);
      EXPECT_NEAR(x.least, y.least, quantum * 1.01 + std::abs(x.least) * 1e-6);
      EXPECT_NEAR(x.greatest, y.greatest, quantum * 1.01 + std::abs(x.greatest) * 1e-6);
    }
  }
}

TEST(Block, IsReadBackUnchanged) {
  Block block{1'790'000'000, 10, 4, {}};
  block.columns.push_back(Of(Metric::kGpuUtilization, {{0.5F, 0.1F, 0.9F}, NoPoint(), {0, 0, 0}, {1, 1, 1}}));
  block.columns.push_back(Of(Metric::kGpuMemoryUsed, {PointOf(80e9), PointOf(80e9), PointOf(1e9), NoPoint()}));
  block.columns.push_back({Metric::kGpuUtilization, "loss", {NoPoint(), PointOf(0.30000001), {2, 1, 3}, NoPoint()}});
  const auto back = DecodeBlock(EncodeBlock(block));
  ASSERT_TRUE(back) << back.error().message;
  ExpectSame(block, *back);
}

TEST(Block, DecodesOnlyTheRequestedColumns) {
  Block block{100, 60, 1, {}};
  block.columns.push_back(Of(Metric::kGpuPower, {PointOf(300)}));
  block.columns.push_back({Metric::kGpuUtilization, "loss", {PointOf(1)}});
  const auto back = DecodeBlock(EncodeBlock(block), [](Metric, std::string_view own) { return own == "loss"; });
  ASSERT_TRUE(back);
  ASSERT_EQ(back->columns.size(), 1U);
  EXPECT_EQ(back->columns[0].name, "loss");
}

TEST(Block, RandomBlocksAreReadBack) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> unit(0, 1);
  for (int round = 0; round < 200; ++round) {
    Block block{
        static_cast<Second>(random() % 2'000'000'000), 1 + static_cast<Second>(random() % 900), random() % 300, {}};
    for (std::size_t i = 0; i < kMetrics; i += 1 + random() % 4) {
      Column column{static_cast<Metric>(i), "", {}};
      const auto quantum = static_cast<float>(FactsOf(column.metric).quantum);
      for (std::size_t k = 0; k < block.count; ++k) {
        const float mean = quantum * std::floor(unit(random) * 1000);
        const float spread = quantum * std::floor(unit(random) * 50);
        column.points.push_back(random() % 5 == 0 ? NoPoint() : Point{mean, mean - spread, mean + spread});
      }
      block.columns.push_back(std::move(column));
    }
    const auto back = DecodeBlock(EncodeBlock(block));
    ASSERT_TRUE(back);
    ExpectSame(block, *back);
  }
}

// Damaged bytes give an error or a block, but never an endless loop or an out-of-bounds access.
TEST(Block, DamagedBytesGiveAnErrorOrAValidBlock) {
  Block block{1000, 10, 60, {}};
  Column column{Metric::kGpuPower, "", {}};
  for (int i = 0; i < 60; ++i) column.points.push_back(i % 7 == 0 ? NoPoint() : PointOf(100 + i));
  block.columns = {column, {Metric::kGpuPower, "loss", column.points}};
  const std::string bytes = EncodeBlock(block);
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = bytes;
    for (std::size_t k = 0; k <= random() % 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (random() % 2 == 0) damaged.resize(random() % damaged.size());
    const auto back = DecodeBlock(damaged);
    if (!back) {
      EXPECT_EQ(back.error().code, ErrorCode::kCorruptData);
      ++refused;
      continue;
    }
    for (const Column& one : back->columns) EXPECT_EQ(one.points.size(), back->count);
  }
  EXPECT_GT(refused, 1000);
}

TEST(Block, ConstantValuesTakeAlmostNoSpace) {
  Block block{0, 60, 240, {}};
  block.columns.push_back({Metric::kGpuSmClock, "", std::vector<Point>(240, PointOf(1.98e9))});
  EXPECT_LT(EncodeBlock(block).size(), 32U);
}

TEST(Snapshots, AreReadBackWithTheirProcesses) {
  std::vector<Snapshot> snapshots;
  for (Second at = 100; at < 110; ++at) {
    Snapshot snapshot;
    snapshot.at = at;
    snapshot.samples.push_back({{Of::kGpu, "n1", 3, -1, 0}, {{Metric::kGpuUtilization, 0.5, ""}}});
    if (at % 2 == 0)
      snapshot.samples.push_back(
          {{Of::kJob, "n1", -1, -1, 17}, {{Metric::kCpuCores, 1.5, ""}, {Metric::kGpuUtilization, 0.25, "loss"}}});
    snapshots.push_back(snapshot);
  }
  snapshots.back().processes.push_back({4711, 17, 3, 1024, 0.5, 1.5, 4096, 0, 512});
  snapshots.back().processes.push_back({99, 0, 3, 2048, -1});
  // A year at 700 W, exact to the last digit.
  snapshots.back().counters = {{3, 22'075'200'000'001, 2}, {4, std::nullopt, 0}};
  const auto back = DecodeSnapshots(EncodeSnapshots(snapshots));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, snapshots);
}

TEST(Snapshots, WithoutSamplesThereAreNoSnapshots) {
  const auto back = DecodeSnapshots(EncodeSnapshots({}));
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->empty());
}

}  // namespace block_test
}  // namespace divvy::samples
