#include "table.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace divvy::interpose {
namespace table_test {

TEST(Table, FindsWhatWasInsertedUntilItIsRemoved) {
  Table<int> table;
  EXPECT_EQ(table.Find(7), nullptr);
  EXPECT_TRUE(table.Put(7, 1));
  EXPECT_TRUE(table.Put(7, 2));
  ASSERT_NE(table.Find(7), nullptr);
  EXPECT_EQ(*table.Find(7), 2);
  EXPECT_EQ(table.size(), 1U);
  EXPECT_TRUE(table.Remove(7));
  EXPECT_FALSE(table.Remove(7));
  EXPECT_EQ(table.size(), 0U);
  table.Clear();
  EXPECT_EQ(table.Find(7), nullptr);
}

// Keys like the driver's: multiples of two megabytes, freed and reused in any order.
TEST(Table, AgreesWithAMapOverManyAddresses) {
  Table<std::uint64_t> table;
  std::unordered_map<std::uint64_t, std::uint64_t> expected;
  std::mt19937_64 random(11);
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t key = 0x7f0000000000 + (random() % 3000 << 21);
    if (random() % 2 == 0) {
      ASSERT_TRUE(table.Put(key, static_cast<std::uint64_t>(step)));
      expected[key] = static_cast<std::uint64_t>(step);
    } else {
      ASSERT_EQ(table.Remove(key), expected.erase(key) == 1);
    }
  }
  ASSERT_EQ(table.size(), expected.size());
  for (const auto& [key, value] : expected) {
    ASSERT_NE(table.Find(key), nullptr);
    ASSERT_EQ(*table.Find(key), value);
  }
  std::size_t visited = 0;
  table.ForEach([&](std::uint64_t key, std::uint64_t value) {
    ++visited;
    EXPECT_EQ(expected.at(key), value);
  });
  EXPECT_EQ(visited, expected.size());
  KeyList<std::uint64_t> odd;
  odd.Gather(table, [](std::uint64_t value) { return value % 2 == 1; });
  EXPECT_FALSE(odd.is_partial());
  std::size_t odd_values = 0;
  for (const auto& [key, value] : expected) odd_values += value % 2;
  EXPECT_EQ(static_cast<std::size_t>(odd.end() - odd.begin()), odd_values);
  for (const std::uint64_t key : odd) EXPECT_EQ(expected.at(key) % 2, 1U);
  table.Clear();
}

}  // namespace table_test
}  // namespace divvy::interpose
