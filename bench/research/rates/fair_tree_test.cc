#include "research/rates/fair_tree.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace divvy::rates {
namespace fair_tree_test {

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

}  // namespace fair_tree_test
}  // namespace divvy::rates
