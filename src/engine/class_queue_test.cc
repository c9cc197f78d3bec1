#include "engine/class_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace divvy {
namespace class_queue_test {

Place At(int priority, int second, std::uint64_t id) {
  return {Time(std::chrono::seconds(second)), JobId(id), priority};
}

TEST(ClassQueue, OrdersByPriorityThenAgeThenId) {
  ClassQueue queue;
  queue.Insert(At(0, 5, 1), 1);
  queue.Insert(At(1, 9, 2), 1);
  queue.Insert(At(0, 5, 3), 1);
  queue.Insert(At(0, 2, 4), 1);
  std::vector<std::uint64_t> ids;
  for (ClassQueue::Position at = queue.begin(); !queue.IsEnd(at); at = queue.Next(at))
    ids.push_back(queue.At(at).place.id.value());
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{2, 4, 1, 3}));
}

TEST(ClassQueue, SkipsAWholePriorityAtOnce) {
  ClassQueue queue;
  queue.Insert(At(2, 1, 1), 1);
  queue.Insert(At(2, 2, 2), 1);
  queue.Insert(At(-7, 1, 3), 1);
  EXPECT_EQ(queue.At(queue.AfterPriority(2)).place.id, JobId(3));
  EXPECT_TRUE(queue.IsEnd(queue.AfterPriority(-7)));
}

TEST(ClassQueue, AgreesWithASortedMapAfterRandomChanges) {
  std::mt19937_64 random(7);
  ClassQueue queue;
  std::map<Place, std::uint32_t> truth;
  for (int step = 0; step < 20'000; ++step) {
    const Place place = At(static_cast<int>(random() % 3), static_cast<int>(random() % 1000), random() % 4 + 1);
    const auto found = truth.find(place);
    const auto count = static_cast<std::uint32_t>(random() % 5 + 1);
    if (found == truth.end()) {
      queue.Insert(place, count);
      truth.emplace(place, count);
    } else if (random() % 3 == 0) {
      queue.SetCount(place, count);
      found->second = count;
    } else {
      queue.Erase(place);
      truth.erase(found);
    }
    if (step % 500 != 0) continue;
    std::uint64_t before = 0;
    ClassQueue::Position at = queue.begin();
    for (const auto& [expected, members] : truth) {
      ASSERT_FALSE(queue.IsEnd(at));
      ASSERT_EQ(queue.At(at).place, expected);
      ASSERT_EQ(queue.At(at).count, members);
      ASSERT_EQ(queue.MembersBefore(expected), before);
      ASSERT_EQ(queue.LowerBound(expected), at);
      before += members;
      at = queue.Next(at);
    }
    ASSERT_TRUE(queue.IsEnd(at));
    ASSERT_EQ(queue.members(), before);
    ASSERT_EQ(queue.entries(), truth.size());
  }
}

}  // namespace class_queue_test
}  // namespace divvy
