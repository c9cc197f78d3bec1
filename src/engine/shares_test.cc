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

ShareNode User(std::string name, std::uint64_t shares, double usage) {
  return {std::move(name), true, shares, usage, {}};
}
ShareNode Account(std::string name, std::uint64_t shares, std::vector<ShareNode> children) {
  return {std::move(name), false, shares, 0, std::move(children)};
}

std::vector<std::pair<std::string, double>> Factors(const ShareNode& root) {
  std::vector<std::pair<std::string, double>> factors;
  for (const ShareRank& rank : FairTree(root)) factors.emplace_back(rank.user, rank.factor);
  return factors;
}
using Factor = std::pair<std::string, double>;

// Slurm, fair_tree.html: all users of the account with the higher Level FS come before all users of the other.
TEST(FairTree, EveryUserOfTheBetterAccountComesFirst) {
  const auto root = Account("root", 1,
                            {Account("a", 50, {User("a1", 1, 10), User("a2", 1, 50)}),
                             Account("b", 50, {User("b1", 1, 0), User("b2", 1, 100)})});
  EXPECT_EQ(Factors(root), (std::vector<Factor>{{"a1", 1}, {"a2", 0.75}, {"b1", 0.5}, {"b2", 0.25}}));
}

TEST(FairTree, SharesAreWeighedAgainstUsage) {
  const auto root = Account("root", 1, {Account("a", 80, {User("a1", 1, 60)}), Account("b", 20, {User("b1", 1, 40)})});
  const auto ranks = FairTree(root);
  EXPECT_EQ(ranks[0].user, "a1");
  EXPECT_EQ(ranks[0].account, "root/a");
  // Account: 0.8 / 0.6 against 0.2 / 0.4. A user alone in its account: 1 / 1.
  EXPECT_DOUBLE_EQ(ranks[0].level, 1);
}

TEST(FairTree, TiedUsersShareARank) {
  const auto root = Account("root", 1, {User("x", 1, 0), User("y", 1, 0), User("z", 1, 5)});
  EXPECT_EQ(Factors(root), (std::vector<Factor>{{"x", 1}, {"y", 1}, {"z", 1.0 / 3}}));
}

TEST(FairTree, TiedAccountsAreRankedAsOne) {
  const auto root = Account("root", 1,
                            {Account("a", 1, {User("a1", 1, 30), User("a2", 3, 30)}),
                             Account("b", 1, {User("b1", 1, 20), User("b2", 1, 40)})});
  // Level FS: a1 (1/4)/(1/2) = 0.5, a2 1.5, b1 (1/2)/(1/3) = 1.5, b2 0.75.
  EXPECT_EQ(Factors(root), (std::vector<Factor>{{"a2", 1}, {"b1", 1}, {"b2", 0.5}, {"a1", 0.25}}));
}

TEST(FairTree, AUserTiedWithAnAccountRanksWithItsBestUser) {
  const auto root = Account("root", 1, {User("u", 1, 50), Account("a", 1, {User("a1", 1, 10), User("a2", 1, 40)})});
  EXPECT_EQ(Factors(root), (std::vector<Factor>{{"u", 1}, {"a1", 1}, {"a2", 1.0 / 3}}));
}

// Ghodsi et al., NSDI 2011, section 4.1: 9 CPUs and 18 GB; A's tasks take <1 CPU, 4 GB>, B's <3 CPUs, 1 GB>.
TEST(DominantShare, MatchesTheAllocationOfThePapersExample) {
  const std::array total = {9.0, 18.0};
  const std::array<std::array<double, 2>, 2> task = {{{1, 4}, {3, 1}}};
  std::array<std::array<double, 2>, 2> used = {};
  std::array<int, 2> tasks = {};
  while (true) {
    const double a = DominantShare(used[0], total);
    const double b = DominantShare(used[1], total);
    const std::size_t next = a <= b ? 0 : 1;
    bool fits = true;
    for (std::size_t r = 0; r < 2; ++r) fits = fits && used[0][r] + used[1][r] + task[next][r] <= total[r];
    if (!fits) break;
    for (std::size_t r = 0; r < 2; ++r) used[next][r] += task[next][r];
    ++tasks[next];
  }
  EXPECT_EQ(tasks, (std::array{3, 2}));
  EXPECT_DOUBLE_EQ(DominantShare(used[0], total), 12.0 / 18);
  EXPECT_DOUBLE_EQ(DominantShare(used[1], total), 6.0 / 9);
}

}  // namespace shares_test
}  // namespace divvy
