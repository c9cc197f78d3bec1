#include "node/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace divvy {
namespace backoff_test {

TEST(Backoff, GrowsToItsMaximumAndStaysThere) {
  Backoff backoff(7);
  Duration step = Backoff::kFirst;
  for (int i = 0; i < 20; ++i) {
    const Duration wait = backoff.Next();
    EXPECT_GE(wait, step / 2);
    EXPECT_LE(wait, step);
    step = std::min(step * 2, Backoff::kMost);
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), Backoff::kFirst);
}

TEST(Backoff, AgentsRetryAtDifferentTimes) {
  std::set<Duration> waits;
  for (std::uint64_t seed = 0; seed < 200; seed += 2) {
    Backoff backoff(seed * 0x9e3779b97f4a7c15ull);
    backoff.Next();
    waits.insert(backoff.Next());
  }
  EXPECT_GT(waits.size(), 90u);
}

}  // namespace backoff_test
}  // namespace divvy
