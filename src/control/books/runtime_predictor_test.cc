#include "control/books/runtime_predictor.h"

#include <gtest/gtest.h>

#include <chrono>

namespace divvy {
namespace runtime_predictor_test {

using namespace std::chrono_literals;

JobRecord Job(std::uint64_t id, const std::string& user, const std::string& name, int gpus = 1) {
  JobRecord record;
  record.id = JobId(id);
  record.user.name = user;
  record.name = name;
  record.request.gpus = gpus;
  return record;
}

TEST(RuntimePredictor, PredictsFromRunsOfTheSameJobClass) {
  RuntimePredictor predictor;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    predictor.Know(Job(id, "ada", "train"), "python train.py");
    predictor.Ran(Job(id, "ada", "train"), 3600s);
    predictor.Forget(JobId(id));
  }
  predictor.Know(Job(4, "ada", "train"), "python train.py");
  EXPECT_EQ(predictor.Predict(Job(4, "ada", "train")), 3600s);
  ASSERT_TRUE(predictor.Spread(Job(4, "ada", "train")));
  EXPECT_EQ(predictor.Spread(Job(4, "ada", "train"))->low, 3600s);
}

TEST(RuntimePredictor, PredictsNothingForAnUnknownJob) {
  RuntimePredictor predictor;
  predictor.Know(Job(1, "ada", "train"), "python train.py");
  EXPECT_EQ(predictor.Predict(Job(1, "ada", "train")), Duration(0));
  EXPECT_EQ(predictor.Predict(Job(2, "ada", "train")), Duration(0)) << "nobody told of job 2";
}

TEST(RuntimePredictor, APredictionChangesWithTheNextRun) {
  RuntimePredictor predictor;
  predictor.Know(Job(1, "ada", "train"), "x");
  predictor.Know(Job(2, "ada", "train"), "x");
  EXPECT_EQ(predictor.Predict(Job(2, "ada", "train")), Duration(0));
  predictor.Ran(Job(1, "ada", "train"), 60s);
  EXPECT_EQ(predictor.Predict(Job(2, "ada", "train")), 60s);
}

TEST(RuntimePredictor, ArrayElementsBelongToTheClassOfTheirArray) {
  RuntimePredictor predictor;
  predictor.Know(Job(10, "ada", "sweep"), "x");
  JobRecord element = Job(11, "ada", "sweep");
  element.array = JobId(10);
  predictor.Ran(element, 600s);
  EXPECT_EQ(predictor.Predict(Job(10, "ada", "sweep")), 600s);
  EXPECT_EQ(predictor.Predict(element), 600s);
}

TEST(RuntimePredictor, LearnsFromJobsThatEndedBeforeTheStart) {
  RuntimePredictor predictor;
  JobRecord ended = Job(1, "ada", "train");
  ended.started = Time(1000s);
  ended.ended = Time(1300s);
  for (int i = 0; i < 3; ++i) predictor.RanBefore(ended);
  predictor.Know(Job(9, "ada", "train"), "python train.py");
  EXPECT_EQ(predictor.Predict(Job(9, "ada", "train")), 300s);
}

TEST(RuntimePredictor, PredictionsAreRoundedToTwoDigits) {
  EXPECT_EQ(Rounded(300ms), 1s);
  EXPECT_EQ(Rounded(99s), 99s);
  EXPECT_EQ(Rounded(3661s), 3700s);
  EXPECT_EQ(Rounded(std::chrono::hours(100)), 360'000s);
}

}  // namespace runtime_predictor_test
}  // namespace divvy
