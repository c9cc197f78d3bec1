#include "control/books/throughput_model.h"

#include <gtest/gtest.h>

namespace divvy {
namespace throughput_model_test {

using namespace std::chrono_literals;

const Time kNoon = Time(std::chrono::hours(500'000));

JobRecord RanOn(const std::string& model, Duration ran, int gpus = 1) {
  JobRecord record;
  record.user.name = "ada";
  record.name = "train";
  record.shape = "python train.py --lr=";
  record.request.gpus = gpus;
  record.gpus = GpuSet::FirstN(gpus);
  record.gpu_model = model;
  record.started = kNoon;
  record.ended = kNoon + ran;
  return record;
}

/// It reported `part` of the whole over 100 s.
JobRecord Reported(const std::string& model, double part, int gpus = 1) {
  JobRecord record = RanOn(model, 1000s, gpus);
  record.progress.since = kNoon;
  record.progress.at = kNoon + 100s;
  record.progress.done = static_cast<std::int64_t>(part * 1e9);
  return record;
}

void Add(ThroughputModel& throughputs, const JobRecord& record, int times, bool ended_well = true) {
  for (int i = 0; i < times; ++i) throughputs.Ran(record, ended_well);
}

std::string TextOf(const ThroughputModel& throughputs, const JobRecord& record) {
  const ThroughputModel::Learned* learned = throughputs.Find(record);
  return learned == nullptr ? "" : SpeedText(*learned);
}

TEST(ThroughputModel, ThreeRunTimesOnEachOfTwoModelsAreEnough) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 550s), 3);
  Add(throughputs, RanOn("A100", 1000s), 2);
  EXPECT_EQ(TextOf(throughputs, RanOn("", 0s)), "");
  EXPECT_TRUE(throughputs.Find(RanOn("", 0s))->speeds().empty());
  Add(throughputs, RanOn("A100", 1000s), 1);
  EXPECT_EQ(TextOf(throughputs, RanOn("", 0s)), "A100 at 0.55 of the speed of H100, learned from 6 runs");
  EXPECT_EQ(throughputs.Find(RanOn("", 0s))->speeds(), (std::vector<ModelSpeed>{{"H100", 1000}, {"A100", 550}}));
}

TEST(ThroughputModel, RunsOnOneModelGiveNoSpeed) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 550s), 30);
  EXPECT_TRUE(throughputs.Find(RanOn("", 0s))->speeds().empty());
  EXPECT_TRUE(throughputs.All().empty());
}

TEST(ThroughputModel, ReportedProgressWinsOverRunTimesAndCountsForFailedRuns) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 1000s), 3);
  Add(throughputs, RanOn("A100", 1000s), 3);
  EXPECT_EQ(TextOf(throughputs, RanOn("", 0s)), "H100 as fast as A100, learned from 6 runs");
  Add(throughputs, Reported("H100", 0.02), 3, false);
  Add(throughputs, Reported("A100", 0.011), 4, false);
  EXPECT_EQ(TextOf(throughputs, RanOn("", 0s)),
            "A100 at 0.55 of the speed of H100, learned from 7 runs by their progress");
}

TEST(ThroughputModel, RunTimesOfFailedRunsDoNotCount) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 10s), 3);
  Add(throughputs, RanOn("A100", 1s), 9, false);
  EXPECT_TRUE(throughputs.Find(RanOn("", 0s))->speeds().empty());
}

TEST(ThroughputModel, AFewOutliersDoNotMoveTheMedian) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 500s), 5);
  Add(throughputs, RanOn("H100", 2s), 2);
  Add(throughputs, RanOn("A100", 1000s), 5);
  Add(throughputs, RanOn("A100", std::chrono::hours(100)), 2);
  EXPECT_EQ(TextOf(throughputs, RanOn("", 0s)), "A100 at 0.5 of the speed of H100, learned from 14 runs");
}

TEST(ThroughputModel, OnlyTheLatestRunsCount) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 500s), 32);
  Add(throughputs, RanOn("A100", 1000s), 32);
  Add(throughputs, RanOn("A100", 250s), 32);
  EXPECT_EQ(throughputs.Find(RanOn("", 0s))->speeds(), (std::vector<ModelSpeed>{{"A100", 1000}, {"H100", 500}}));
}

TEST(ThroughputModel, AnotherCommandNameUserOrSizeIsAnotherJobClass) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 500s), 3);
  Add(throughputs, RanOn("A100", 1000s), 3);
  JobRecord other = RanOn("", 0s);
  other.shape = "python eval.py";
  EXPECT_EQ(throughputs.Find(other), nullptr);
  other = RanOn("", 0s);
  other.name = "eval";
  EXPECT_EQ(throughputs.Find(other), nullptr);
  other = RanOn("", 0s);
  other.user.name = "eve";
  EXPECT_EQ(throughputs.Find(other), nullptr);
  EXPECT_EQ(throughputs.Find(RanOn("", 0s, 2)), nullptr);
}

TEST(ThroughputModel, ModelsWithinFivePercentAreEqual) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 500s), 3);
  Add(throughputs, RanOn("H200", 510s), 3);
  Add(throughputs, RanOn("A100", 1000s), 3);
  Add(throughputs, RanOn("A800", 1040s), 3);
  EXPECT_EQ(throughputs.Find(RanOn("", 0s))->speeds(),
            (std::vector<ModelSpeed>{{"H100", 1000}, {"H200", 1000}, {"A100", 500}, {"A800", 500}}));
  EXPECT_EQ(TextOf(throughputs, RanOn("", 0s)),
            "H200 as fast as H100, A100 at 0.5 of the speed of H100 and A800 at 0.5 of the speed of H100, learned from "
            "12 runs");
}

TEST(ThroughputModel, AModelWithFewRunsStaysUnknown) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("H100", 500s), 3);
  Add(throughputs, RanOn("A100", 1000s), 3);
  Add(throughputs, RanOn("V100", 10s), 2);
  EXPECT_EQ(throughputs.Find(RanOn("", 0s))->speeds(), (std::vector<ModelSpeed>{{"H100", 1000}, {"A100", 500}}));
  ASSERT_EQ(throughputs.All().size(), 1u);
  EXPECT_EQ(throughputs.All().front()->models.back().model, "V100");
  EXPECT_EQ(throughputs.All().front()->models.back().speed, 0);
  EXPECT_EQ(throughputs.All().front()->models.back().runs, 2u);
}

TEST(ThroughputModel, RunsOnMixedModelsOrWithResizedGpusDoNotCount) {
  ThroughputModel throughputs;
  Add(throughputs, RanOn("", 500s), 3);
  JobRecord resized = RanOn("H100", 500s);
  resized.gpus_since = kNoon + 1s;
  Add(throughputs, resized, 3);
  EXPECT_EQ(throughputs.Find(RanOn("", 0s)), nullptr);
}

TEST(ThroughputModel, PausedRunsCountByTheirReportsNotTheirRunTime) {
  ThroughputModel throughputs;
  JobRecord paused = RanOn("A100", 36'000s);
  paused.progress.was_paused = true;
  Add(throughputs, RanOn("H100", 550s), 3);
  Add(throughputs, paused, 3);
  EXPECT_TRUE(throughputs.Find(paused)->speeds().empty());
  paused = Reported("A100", 0.011);
  paused.progress.was_paused = true;
  Add(throughputs, paused, 3);
  Add(throughputs, Reported("H100", 0.02), 3);
  EXPECT_EQ(TextOf(throughputs, paused), "A100 at 0.55 of the speed of H100, learned from 6 runs by their progress");
}

TEST(ThroughputModel, JobClassesThatRanLongestAgoAreForgotten) {
  ThroughputModel throughputs;
  JobRecord record = RanOn("H100", 500s);
  for (std::size_t i = 0; i <= ThroughputModel::kGroupsKept; ++i) {
    record.name = std::to_string(i);
    throughputs.Ran(record, true);
  }
  record.name = "0";
  EXPECT_EQ(throughputs.Find(record), nullptr);
  record.name = "1";
  EXPECT_NE(throughputs.Find(record), nullptr);
}

TEST(SpeedText, HasAsManyDigitsAsItNeeds) {
  EXPECT_EQ(SpeedText(1000), "1");
  EXPECT_EQ(SpeedText(550), "0.55");
  EXPECT_EQ(SpeedText(45), "0.045");
  EXPECT_EQ(SpeedText(2200), "2.2");
}

}  // namespace throughput_model_test
}  // namespace divvy
