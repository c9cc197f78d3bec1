#include "research/rates/fair_rounds.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace divvy::rates {
namespace fair_rounds_test {

constexpr std::array<std::size_t, 1> kOneType = {0};

std::map<std::size_t, int> Play(FairRounds& rounds, int count) {
  std::map<std::size_t, int> runs;
  for (int i = 0; i < count; ++i) {
    for (const auto& [job, type] : rounds.Pick(kOneType)) {
      rounds.Ran(job, type, 1);
      ++runs[job];
    }
  }
  return runs;
}

TEST(FairRounds, OverManyRoundsEachGetsItsShare) {
  FairRounds rounds({1}, 0.5);
  for (std::size_t job = 0; job < 3; ++job) rounds.Join(job, 1);
  const std::vector<std::vector<double>> shares = {{0.5}, {0.25}, {0.25}};
  rounds.Settle(0, shares);
  auto runs = Play(rounds, 400);
  EXPECT_NEAR(runs[0], 200, 1);
  EXPECT_NEAR(runs[1], 100, 1);
  EXPECT_NEAR(runs[2], 100, 1);
}

TEST(FairRounds, NoGpuIsIdleWhileAJobWithoutAShareWaits) {
  FairRounds rounds({2}, 0.5);
  rounds.Join(0, 1);
  rounds.Settle(0, std::vector<std::vector<double>>{{1}});
  rounds.Join(1, 1);
  EXPECT_EQ(Play(rounds, 3)[1], 3);
}

TEST(FairRounds, AGangRunsWholeOrNotAtAll) {
  FairRounds rounds({3}, 0.5);
  rounds.Join(0, 2);
  rounds.Join(1, 2);
  rounds.Join(2, 1);
  rounds.Settle(0, std::vector<std::vector<double>>{{0.5}, {0.5}, {1}});
  auto runs = Play(rounds, 100);
  EXPECT_EQ(runs[0] + runs[1], 100);
  EXPECT_NEAR(runs[0], 50, 1);
  EXPECT_EQ(runs[2], 100);
}

TEST(FairRounds, AmongEqualsTheJobThatGotLeastSoFarGoesFirst) {
  FairRounds rounds({1}, 0.5);
  rounds.Join(0, 1);
  rounds.Join(1, 1);
  const std::vector<std::vector<double>> shares = {{0.5}, {0.5}};
  rounds.Settle(0, shares);
  rounds.Ran(0, 0, 10);
  rounds.Settle(10, shares);
  EXPECT_EQ(rounds.Pick(kOneType)[0].job, 1u);
}

TEST(FairRounds, GpuTypesArePickedInTheGivenOrder) {
  FairRounds rounds({1, 1}, 0.5);
  rounds.Join(0, 1);
  rounds.Settle(0, std::vector<std::vector<double>>{{0.5, 0.5}});
  const std::array<std::size_t, 2> types = {1, 0};
  const auto places = rounds.Pick(types);
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].type, 1u);
}

TEST(FairRounds, JobsThatLeftAreNotPicked) {
  FairRounds rounds({1}, 0.5);
  rounds.Join(0, 1);
  rounds.Join(1, 1);
  rounds.Settle(0, std::vector<std::vector<double>>{{0.5}, {0.5}});
  rounds.Leave(0);
  EXPECT_EQ(Play(rounds, 4)[1], 4);
}

}  // namespace fair_rounds_test
}  // namespace divvy::rates
