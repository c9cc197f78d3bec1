#include "daemon/views/start_estimate_cache.h"

#include <gtest/gtest.h>

namespace divvy {
namespace start_estimate_cache_test {

class StartEstimateCacheTest : public testing::Test {
 protected:
  /// Updates at most `most` estimates; returns the estimated ids in order.
  std::vector<std::uint64_t> Look(const std::vector<std::uint64_t>& waiting, int most) {
    std::vector<JobId> ids;
    for (const std::uint64_t one : waiting) ids.emplace_back(one);
    std::vector<std::uint64_t> asked;
    cache_.Update(
        ids, now_,
        [&](JobId job) {
          asked.push_back(job.value());
          return core::Estimate{.typical = now_, .basis = "look " + std::to_string(asked.size())};
        },
        [&] { return static_cast<int>(asked.size()) < most; });
    return asked;
  }
  using Ids = std::vector<std::uint64_t>;

  StartEstimateCache cache_;
  Time now_ = TimeFromSeconds(1'000'000);
};

TEST_F(StartEstimateCacheTest, StopsAtItsTimeBudgetAndContinuesThereNextTime) {
  EXPECT_EQ(Look({5, 3, 9, 1}, 2), (Ids{5, 3}));
  EXPECT_NE(cache_.Find(JobId(3)), nullptr);
  EXPECT_EQ(cache_.Find(JobId(9)), nullptr);
  EXPECT_EQ(Look({5, 3, 9, 1}, 2), (Ids{9, 1}));
  EXPECT_EQ(Look({5, 3, 9, 1}, 2), (Ids{}));
}

TEST_F(StartEstimateCacheTest, RefreshesTheOldestEstimateAfterAWhile) {
  Look({5, 3}, 1);
  now_ += std::chrono::seconds(1);
  Look({5, 3}, 1);
  now_ += StartEstimateCache::kStays - std::chrono::seconds(1);
  EXPECT_EQ(Look({3, 5}, 2), (Ids{5}));
  now_ += std::chrono::seconds(1);
  // Jobs without an estimate go first.
  EXPECT_EQ(Look({3, 5, 8}, 2), (Ids{8, 3}));
}

TEST_F(StartEstimateCacheTest, ForgetsJobsThatNoLongerWait) {
  Look({5, 3}, 9);
  Look({3}, 9);
  EXPECT_EQ(cache_.Find(JobId(5)), nullptr);
  ASSERT_NE(cache_.Find(JobId(3)), nullptr);
  EXPECT_EQ(cache_.Find(JobId(3))->basis, "look 2");
}

}  // namespace start_estimate_cache_test
}  // namespace divvy
