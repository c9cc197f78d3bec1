#include "blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace divvy::interpose {
namespace blocks_test {

constexpr std::uint64_t kBase = 0x7f0000000000;

TEST(Blocks, HasNoRoomBeforeItHasAChunk) {
  Blocks blocks;
  EXPECT_EQ(blocks.Take(512), nullptr);
}

TEST(Blocks, SplitsAChunkAndMergesItAgain) {
  Blocks blocks;
  int chunk = 0;
  ASSERT_NE(blocks.AddChunk(kBase, kMostBlock, &chunk), nullptr);
  Block* const a = blocks.Take(1);
  Block* const b = blocks.Take(1000);
  Block* const c = blocks.Take(kMostBlock - 512 - 1024);
  ASSERT_TRUE(a != nullptr && b != nullptr && c != nullptr);
  EXPECT_EQ(a->size, 512U);
  EXPECT_EQ(b->size, 1024U);
  EXPECT_EQ(blocks.Take(1), nullptr);  // Everything is in use.
  EXPECT_EQ(blocks.Free(b), nullptr);
  EXPECT_EQ(blocks.Free(a), nullptr);
  Block* const ab = blocks.Take(1536);  // Adjacent free blocks were merged.
  ASSERT_NE(ab, nullptr);
  EXPECT_EQ(ab->address, kBase);
  EXPECT_EQ(blocks.Free(ab), nullptr);
  EXPECT_EQ(blocks.Free(c), &chunk);  // The chunk is empty, so it is returned.
  EXPECT_EQ(blocks.Take(1), nullptr);
}

TEST(Blocks, RefusesSizesThatNoChunkCanHold) {
  Blocks blocks;
  int chunk = 0;
  blocks.AddChunk(kBase, kMostBlock, &chunk);
  EXPECT_EQ(blocks.Take(0), nullptr);
  EXPECT_EQ(blocks.Take(kMostBlock + 1), nullptr);
  Block* const all = blocks.Take(kMostBlock);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(blocks.Free(all), &chunk);
}

// No blocks overlap, each lies in its chunk, and after all are freed every chunk was returned exactly once.
TEST(Blocks, NeverOverlapOverManyRandomSizes) {
  Blocks blocks;
  std::mt19937_64 random(5);
  std::map<std::uint64_t, Block*> taken;
  std::vector<int> chunks(4096);
  std::vector<bool> is_out(chunks.size(), false);
  std::uint64_t next_chunk = 0;
  const auto release = [&](Block* block) {
    taken.erase(block->address);
    void* const chunk = blocks.Free(block);
    if (chunk == nullptr) return;
    const auto index = static_cast<std::size_t>(static_cast<int*>(chunk) - chunks.data());
    EXPECT_FALSE(is_out[index]);
    is_out[index] = true;
  };
  for (int step = 0; step < 100'000; ++step) {
    if (random() % 3 != 0 || taken.empty()) {
      const std::uint64_t bytes = 1 + random() % (std::uint64_t{1} << (1 + random() % 20));
      Block* block = blocks.Take(bytes);
      if (block == nullptr) {
        if (next_chunk == chunks.size()) continue;
        ASSERT_NE(blocks.AddChunk(kBase + next_chunk * kMostBlock, kMostBlock, &chunks[next_chunk]), nullptr);
        ++next_chunk;
        block = blocks.Take(bytes);
      }
      ASSERT_NE(block, nullptr);
      ASSERT_GE(block->size, bytes);
      ASSERT_EQ(block->address % kBlockUnit, 0U);
      ASSERT_EQ((block->address - kBase) / kMostBlock, (block->address + block->size - 1 - kBase) / kMostBlock);
      const auto after = taken.lower_bound(block->address);
      ASSERT_TRUE(after == taken.end() || block->address + block->size <= after->first);
      ASSERT_TRUE(after == taken.begin() || std::prev(after)->first + std::prev(after)->second->size <= block->address);
      taken[block->address] = block;
    } else {
      auto victim = taken.lower_bound(kBase + random() % (next_chunk * kMostBlock));
      release((victim == taken.end() ? taken.begin() : victim)->second);
    }
  }
  while (!taken.empty()) release(taken.begin()->second);
  for (std::uint64_t i = 0; i < next_chunk; ++i) EXPECT_TRUE(is_out[i]) << i;
}

}  // namespace blocks_test
}  // namespace divvy::interpose
