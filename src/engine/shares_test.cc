#include "engine/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <utility>

namespace divvy {
namespace shares_test {

using Shares = std::vector<std::int64_t>;

TeamDemand Asks(std::int64_t demand, std::int64_t quota, std::uint64_t weight = 1, int priority = 0,
                std::int64_t limit = kNoBound) {
  return {demand, quota, limit, weight, priority};
}

TEST(Divide, QuotaComesFirstWhateverThePriority) {
  EXPECT_EQ(Divide(8, std::array{Asks(8, 4, 1, 0), Asks(8, 4, 1, 9)}), (Shares{4, 4}));
}

TEST(Divide, UnusedQuotaIsSurplusForOthers) {
  EXPECT_EQ(Divide(8, std::array{Asks(8, 4), Asks(1, 4)}), (Shares{7, 1}));
}

TEST(Divide, SurplusIsDividedByWeight) {
  EXPECT_EQ(Divide(12, std::array{Asks(99, 0, 1), Asks(99, 0, 2), Asks(99, 0, 3)}), (Shares{2, 4, 6}));
}

TEST(Divide, HigherPriorityGetsTheSurplusBeforeWeightCounts) {
  EXPECT_EQ(Divide(10, std::array{Asks(99, 2, 100, 0), Asks(5, 2, 1, 1)}), (Shares{5, 5}));
}

TEST(Divide, RemaindersRoundToTheLargestAndThenToTheFirst) {
  EXPECT_EQ(Divide(8, std::array{Asks(99, 0), Asks(99, 0), Asks(99, 0)}), (Shares{3, 3, 2}));
  EXPECT_EQ(Divide(5, std::array{Asks(99, 0, 1), Asks(99, 0, 3)}), (Shares{1, 4}));
}

TEST(Divide, UnwantedSurplusIsDividedAgain) {
  EXPECT_EQ(Divide(9, std::array{Asks(1, 0), Asks(99, 0), Asks(99, 0)}), (Shares{1, 4, 4}));
}

TEST(Divide, LimitAppliesToQuotaAndSurplus) {
  EXPECT_EQ(Divide(8, std::array{Asks(9, 6, 1, 0, 3), Asks(9, 0)}), (Shares{3, 5}));
}

TEST(Divide, WeightZeroGetsSurplusOnlyIfNoOtherTeamWantsIt) {
  EXPECT_EQ(Divide(8, std::array{Asks(9, 2, 0), Asks(9, 2, 1)}), (Shares{2, 6}));
  EXPECT_EQ(Divide(8, std::array{Asks(9, 2, 0), Asks(3, 2, 1)}), (Shares{5, 3}));
}

TEST(Divide, TeamsWithoutAQuotaShareByWeightHoweverMuchTheyRequest) {
  EXPECT_EQ(Divide(8, std::array{Asks(12, kNoBound, 1), Asks(12, kNoBound, 3)}), (Shares{2, 6}));
  EXPECT_EQ(Divide(12, std::array{Asks(12, kNoBound, 1), Asks(12, kNoBound, 3)}), (Shares{3, 9}));
  EXPECT_EQ(Divide(8, std::array{Asks(12, kNoBound, 1), Asks(3, kNoBound, 3)}), (Shares{5, 3}));
}

TEST(Divide, QuotasComeFirstThenTeamsWithoutAQuotaThenSurplus) {
  EXPECT_EQ(Divide(8, std::array{Asks(99, 4), Asks(99, kNoBound)}), (Shares{4, 4}));
  EXPECT_EQ(Divide(8, std::array{Asks(99, 4, 1, 9), Asks(3, kNoBound)}), (Shares{5, 3}));
}

TEST(Divide, QuotasBeyondTheClusterShrinkInProportion) {
  EXPECT_EQ(Divide(6, std::array{Asks(99, 8), Asks(99, 4)}), (Shares{4, 2}));
}

TEST(Divide, InvariantsHoldOnRandomTeams) {
  std::mt19937 random(3);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t total = below(40);
    std::vector<TeamDemand> claims;
    for (std::int64_t i = below(6); i >= 0; --i) {
      claims.push_back({below(30), below(4) == 0 ? kNoBound : below(12), below(3) == 0 ? below(15) : kNoBound,
                        static_cast<std::uint64_t>(below(4)), static_cast<int>(below(3))});
    }
    const Shares shares = Divide(total, claims);
    std::int64_t wanted = 0;
    std::int64_t rights = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const std::int64_t want = std::min(claims[i].demand, claims[i].limit);
      wanted += want;
      rights += std::min(want, claims[i].quota);
      ASSERT_GE(shares[i], 0);
      ASSERT_LE(shares[i], want);
    }
    ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), std::min(total, wanted));
    for (std::size_t i = 0; i < claims.size() && rights <= total; ++i)
      ASSERT_GE(shares[i], std::min({claims[i].demand, claims[i].limit, claims[i].quota}));
    // A larger demand never reduces a team's share.
    if (claims.empty()) continue;
    std::vector<TeamDemand> more = claims;
    more[0].demand += 5;
    ASSERT_GE(Divide(total, more)[0], shares[0]);
  }
}

TEST(DecayedUsage, HalvesEveryHalfLife) {
  DecayedUsage usage(24h);
  const Time start = Time(1000h);
  usage.Add(80, start);
  EXPECT_DOUBLE_EQ(usage.At(start + 24h), 40);
  usage.Add(10, start + 48h);
  EXPECT_DOUBLE_EQ(usage.At(start + 48h), 30);
  EXPECT_DOUBLE_EQ(usage.At(start), 30);  // An earlier time changes nothing.
}

}  // namespace shares_test
}  // namespace divvy
