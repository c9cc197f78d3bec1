#include "daemon/runtime/fair_workers.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace divvy {
namespace {

constexpr std::int64_t kAlice = 1001, kBob = 1002;
constexpr auto kLong = std::chrono::seconds(60);

TEST(FairWorkers, OneUsersSlowReadDelaysNeitherOthersNorRoot) {
  std::promise<void> end;
  const std::shared_future<void> ended(end.get_future());
  std::promise<void> of_bob, of_root;
  FairWorkers workers;
  for (int i = 0; i < 16; ++i) workers.Do(kAlice, [ended] { ended.wait(); });
  workers.Do(kBob, [&of_bob] { of_bob.set_value(); });
  workers.Do(FairWorkers::kOwn, [&of_root] { of_root.set_value(); });
  EXPECT_EQ(of_bob.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(of_root.get_future().wait_for(kLong), std::future_status::ready);
  end.set_value();
}

TEST(FairWorkers, ManyUsersTogetherDoNotDelayRoot) {
  std::promise<void> end;
  const std::shared_future<void> ended(end.get_future());
  std::promise<void> of_root;
  FairWorkers workers;
  for (std::int64_t user = 1; user <= 50; ++user) workers.Do(user, [ended] { ended.wait(); });
  workers.Do(FairWorkers::kOwn, [&of_root] { of_root.set_value(); });
  EXPECT_EQ(of_root.get_future().wait_for(kLong), std::future_status::ready);
  end.set_value();
}

TEST(FairWorkers, TasksOfAUserRunInOrderAndAllOfThemBeforeTheEnd) {
  std::string order;  // Written by one task at a time.
  {
    FairWorkers workers;
    for (char name = 'a'; name <= 'z'; ++name) workers.Do(kAlice, [&order, name] { order += name; });
  }
  EXPECT_EQ(order, "abcdefghijklmnopqrstuvwxyz");
}

}  // namespace
}  // namespace divvy
