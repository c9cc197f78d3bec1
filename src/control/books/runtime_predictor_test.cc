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
  RuntimePredictor book;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    book.Know(Job(id, "ada", "train"), "python train.py");
    book.Ran(Job(id, "ada", "train"), 3600s);
    book.Forget(JobId(id));
  }
  book.Know(Job(4, "ada", "train"), "python train.py");
  EXPECT_EQ(book.Predict(Job(4, "ada", "train")), 3600s);
  ASSERT_TRUE(book.Spread(Job(4, "ada", "train")));
  EXPECT_EQ(book.Spread(Job(4, "ada", "train"))->low, 3600s);
}

TEST(RuntimePredictor, PredictsNothingForAnUnknownJob) {
  RuntimePredictor book;
  book.Know(Job(1, "ada", "train"), "python train.py");
  EXPECT_EQ(book.Predict(Job(1, "ada", "train")), Duration(0));
  EXPECT_EQ(book.Predict(Job(2, "ada", "train")), Duration(0)) << "nobody told of job 2";
}

TEST(RuntimePredictor, APredictionChangesWithTheNextRun) {
  RuntimePredictor book;
  book.Know(Job(1, "ada", "train"), "x");
  book.Know(Job(2, "ada", "train"), "x");
  EXPECT_EQ(book.Predict(Job(2, "ada", "train")), Duration(0));
  book.Ran(Job(1, "ada", "train"), 60s);
  EXPECT_EQ(book.Predict(Job(2, "ada", "train")), 60s);
}

TEST(RuntimePredictor, ArrayElementsBelongToTheClassOfTheirArray) {
  RuntimePredictor book;
  book.Know(Job(10, "ada", "sweep"), "x");
  JobRecord element = Job(11, "ada", "sweep");
  element.array = JobId(10);
  book.Ran(element, 600s);
  EXPECT_EQ(book.Predict(Job(10, "ada", "sweep")), 600s);
  EXPECT_EQ(book.Predict(element), 600s);
}

TEST(RuntimePredictor, LearnsFromJobsThatEndedBeforeTheStart) {
  RuntimePredictor book;
  JobRecord ended = Job(1, "ada", "train");
  ended.started = Time(1000s);
  ended.ended = Time(1300s);
  for (int i = 0; i < 3; ++i) book.RanBefore(ended);
  book.Know(Job(9, "ada", "train"), "python train.py");
  EXPECT_EQ(book.Predict(Job(9, "ada", "train")), 300s);
}

TEST(RuntimePredictor, PredictionsAreRoundedToTwoDigits) {
  EXPECT_EQ(Rounded(300ms), 1s);
  EXPECT_EQ(Rounded(99s), 99s);
  EXPECT_EQ(Rounded(3661s), 3700s);
  EXPECT_EQ(Rounded(std::chrono::hours(100)), 360'000s);
}

}  // namespace runtime_predictor_test
}  // namespace divvy
