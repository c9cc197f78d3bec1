#include "engine/run_times.h"

#include <gtest/gtest.h>

namespace divvy {
namespace run_times_test {

RunProfile Kind(const std::string& user, const std::string& name, const std::vector<std::string>& command,
                int gpus = 1) {
  return {user, name, ShapeOf(command), gpus};
}

TEST(ShapeOf, DropsWhatChangesFromRunToRun) {
  EXPECT_EQ(ShapeOf({"python", "train.py", "--lr=0.1", "--seed", "7", "/data/run12"}),
            "python train.py --lr= --seed # /data/run#");
  EXPECT_EQ(ShapeOf({"a", "1e-4", "0.5x", "v2.1"}), "a # #x v#");
  EXPECT_EQ(ShapeOf({}), "");
}

TEST(RunTimes, WithoutRunsNothingIsPredicted) {
  EXPECT_FALSE(RunTimes().Predict(Kind("ada", "train", {"train"})).has_value());
}

TEST(RunTimes, TheSameCommandIsABetterPredictorThanOtherJobsOfTheUser) {
  RunTimes times;
  for (int i = 0; i < 5; ++i) times.Add(Kind("ada", "short", {"eval"}), 1min);
  for (int i = 0; i < 5; ++i) times.Add(Kind("ada", "long", {"train", "--seed=1"}), 2h);
  const auto estimate = times.Predict(Kind("ada", "long", {"train", "--seed=9"}));
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->typical, 2h);
  EXPECT_EQ(estimate->basis, "same command");
  EXPECT_EQ(estimate->runs, 5U);
}

TEST(RunTimes, WithTooFewSimilarRunsTheWiderClassIsUsed) {
  RunTimes times;
  times.Add(Kind("ada", "train", {"train", "a"}), 10h);
  for (int i = 0; i < 4; ++i) times.Add(Kind("ada", "train", {"train", "b"}), 1h);
  const auto estimate = times.Predict(Kind("ada", "train", {"train", "a"}));
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->basis, "same name");
  EXPECT_EQ(estimate->typical, 1h);
}

TEST(RunTimes, OneRunIsBetterThanNone) {
  RunTimes times;
  times.Add(Kind("ada", "train", {"train"}), 10h);
  EXPECT_EQ(times.Predict(Kind("ada", "train", {"train"}))->typical, 10h);
  EXPECT_EQ(times.Predict(Kind("ada", "other", {"x"}, 4))->basis, "this user");
  EXPECT_FALSE(times.Predict(Kind("bob", "train", {"train"})).has_value());
}

TEST(RunTimes, NewRunsCountMoreThanOldOnes) {
  RunTimes times;
  for (int i = 0; i < 12; ++i) times.Add(Kind("ada", "t", {"t"}), 10h);
  for (int i = 0; i < 8; ++i) times.Add(Kind("ada", "t", {"t"}), 1h);
  EXPECT_EQ(times.Predict(Kind("ada", "t", {"t"}))->typical, 1h);
}

TEST(RunTimes, IntervalCoversTheSpread) {
  RunTimes times;
  for (int i = 1; i <= 20; ++i) times.Add(Kind("ada", "t", {"t"}), i * 1min);
  const auto estimate = times.Predict(Kind("ada", "t", {"t"}));
  EXPECT_LT(estimate->low, estimate->typical);
  EXPECT_GT(estimate->high, estimate->typical);
  EXPECT_LE(estimate->high, 20min);
}

TEST(RunTimes, AccuracyComparesPredictionsMadeBeforeTheRun) {
  RunTimes times;
  times.Add(Kind("ada", "t", {"t"}), 1h);
  EXPECT_EQ(times.accuracy().unpredicted, 1U);
  for (int i = 0; i < 9; ++i) times.Add(Kind("ada", "t", {"t"}), 1h);
  times.Add(Kind("ada", "t", {"t"}), 10h);
  const auto accuracy = times.accuracy();
  EXPECT_EQ(accuracy.predicted, 10U);
  EXPECT_DOUBLE_EQ(accuracy.median_ratio, 1);
  EXPECT_DOUBLE_EQ(accuracy.within_factor_two, 0.9);
  EXPECT_DOUBLE_EQ(accuracy.inside_interval, 0.9);
}

TEST(RunTimes, MemoryIsBounded) {
  RunTimes times;
  for (std::size_t i = 0; i < RunTimes::kGroupsKept + 1000; ++i)
    times.Add(Kind("user" + std::to_string(i), "n", {"c"}), 1min);
  EXPECT_EQ(times.group_count(), RunTimes::kGroupsKept);
  EXPECT_FALSE(times.Predict(Kind("user0", "n", {"c"})).has_value());
  EXPECT_TRUE(times.Predict(Kind("user" + std::to_string(RunTimes::kGroupsKept + 999), "n", {"c"})).has_value());
}

}  // namespace run_times_test
}  // namespace divvy
