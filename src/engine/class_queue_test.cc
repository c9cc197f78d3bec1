#include "engine/class_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace divvy {
namespace line_test {

Place At(int priority, int second, std::uint64_t id) {
  return {Time(std::chrono::seconds(second)), JobId(id), priority};
}

TEST(ClassQueue, OrdersByPriorityThenAgeThenId) {
  ClassQueue line;
  line.Insert(At(0, 5, 1), 1);
  line.Insert(At(1, 9, 2), 1);
  line.Insert(At(0, 5, 3), 1);
  line.Insert(At(0, 2, 4), 1);
  std::vector<std::uint64_t> ids;
  for (ClassQueue::Position at = line.begin(); !line.IsEnd(at); at = line.Next(at))
    ids.push_back(line.At(at).place.id.value());
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{2, 4, 1, 3}));
}

TEST(ClassQueue, SkipsAWholePriorityAtOnce) {
  ClassQueue line;
  line.Insert(At(2, 1, 1), 1);
  line.Insert(At(2, 2, 2), 1);
  line.Insert(At(-7, 1, 3), 1);
  EXPECT_EQ(line.At(line.AfterPriority(2)).place.id, JobId(3));
  EXPECT_TRUE(line.IsEnd(line.AfterPriority(-7)));
}

TEST(ClassQueue, AgreesWithASortedMapAfterRandomChanges) {
  std::mt19937_64 random(7);
  ClassQueue line;
  std::map<Place, std::uint32_t> truth;
  for (int step = 0; step < 20'000; ++step) {
    const Place place = At(static_cast<int>(random() % 3), static_cast<int>(random() % 1000), random() % 4 + 1);
    const auto found = truth.find(place);
    const auto count = static_cast<std::uint32_t>(random() % 5 + 1);
    if (found == truth.end()) {
      line.Insert(place, count);
      truth.emplace(place, count);
    } else if (random() % 3 == 0) {
      line.SetCount(place, count);
      found->second = count;
    } else {
      line.Erase(place);
      truth.erase(found);
    }
    if (step % 500 != 0) continue;
    std::uint64_t before = 0;
    ClassQueue::Position at = line.begin();
    for (const auto& [expected, members] : truth) {
      ASSERT_FALSE(line.IsEnd(at));
      ASSERT_EQ(line.At(at).place, expected);
      ASSERT_EQ(line.At(at).count, members);
      ASSERT_EQ(line.MembersBefore(expected), before);
      ASSERT_EQ(line.LowerBound(expected), at);
      before += members;
      at = line.Next(at);
    }
    ASSERT_TRUE(line.IsEnd(at));
    ASSERT_EQ(line.members(), before);
    ASSERT_EQ(line.entries(), truth.size());
  }
}

}  // namespace line_test
}  // namespace divvy
