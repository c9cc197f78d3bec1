#include "daemon/telemetry/metric_store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "daemon/telemetry/samples_test_world.h"

namespace divvy {
namespace metric_store_test {

using samples::Metric;
using samples::Of;

constexpr samples::Second kStart = 1'790'000'100;

class MetricStoreTest : public MetricStoreOnDisk {
 protected:
  MetricStore::Answer Ask(const MetricStore::Question& question, samples::Second now) {
    return Await<MetricStore::Answer>([&](const auto& done) {
      samples_->Ask(question, now, [done](Result<MetricStore::Answer> found) -> std::function<void()> {
        return [done, found = std::move(found)] { done(*found); };
      });
    });
  }
  static samples::Snapshot SecondOf(samples::Second at, double use, std::uint64_t job = 0) {
    samples::Snapshot snapshot;
    snapshot.at = at;
    snapshot.samples.push_back({{Of::kGpu, "n1", 0, -1, 0}, {{Metric::kGpuUtilization, use, ""}}});
    snapshot.samples.push_back({{Of::kNode, "n1", -1, -1, 0}, {{Metric::kCpuCores, 2, ""}}});
    if (job != 0)
      snapshot.samples.push_back(
          {{Of::kJob, "n1", -1, -1, job}, {{Metric::kCpuCores, 1, ""}, {Metric::kGpuUtilization, 0.5, "loss"}}});
    snapshot.processes.push_back({4711, job, 0, 1e9, 0.5});
    return snapshot;
  }
  static int PointsOf(const MetricStore::Answer& answer) {
    int points = 0;
    for (const auto& series : answer.series) {
      for (const auto& curve : series.curves) {
        for (const auto& point : curve.points) points += IsPoint(point) ? 1 : 0;
      }
    }
    return points;
  }
};

TEST_F(MetricStoreTest, ReturnsTheLastSampleUntilItIsTooOld) {
  samples_->Add(SecondOf(kStart, 0.5, 17), kStart);
  EXPECT_EQ(samples_->Latest(kStart + 1).size(), 3U);
  EXPECT_EQ(samples_->GpusUsed(kStart + 1), 0.5);
  ASSERT_EQ(samples_->ProcessesOn("n1", kStart + 1).size(), 1U);
  EXPECT_EQ(samples_->ProcessesOn("n1", kStart + 1)[0].pid, 4711);
  EXPECT_TRUE(samples_->Latest(kStart + 60).empty());
  EXPECT_EQ(samples_->GpusUsed(kStart + 60), 0);
}

TEST_F(MetricStoreTest, LastReportedMetricsSurviveTheProcess) {
  samples_->Add(SecondOf(kStart, 0.5, 17), kStart);
  samples_->Add(SecondOf(kStart + 1, 0.5, 18), kStart + 1);
  const auto reported = [this] {
    return Await<MetricStore::Reported>([&](const auto& done) { samples_->AskReported({17, 19}, done); });
  };
  const MetricStore::Reported expected = {{17, {{"loss", 0.5}}}};
  EXPECT_EQ(reported(), expected);
  samples_->Close();
  OpenSamples();
  EXPECT_EQ(reported(), expected);
}

TEST_F(MetricStoreTest, TheLastMinutesHaveOnePointPerSecond) {
  for (int i = 0; i < 100; ++i) samples_->Add(SecondOf(kStart + i, i % 2), kStart + i);
  MetricStore::Question question;
  const auto answer = Ask(question, kStart + 99);
  ASSERT_EQ(answer.series.size(), 1U);
  EXPECT_EQ(answer.step, 2);  // Ten minutes in 400 points.
  EXPECT_EQ(PointsOf(answer), 50);
}

TEST_F(MetricStoreTest, TheLastMinutesSurviveARestart) {
  for (int i = 0; i < 200; ++i) samples_->Add(SecondOf(kStart + i, 0.5), kStart + i);
  samples_->Close();
  OpenSamples();
  MetricStore::Question question;
  question.range = {kStart, kStart + 300, 300};
  EXPECT_EQ(PointsOf(Ask(question, kStart + 210)), 200) << "nothing was seen since";
  for (int i = 250; i < 300; ++i) samples_->Add(SecondOf(kStart + i, 0.25), kStart + i);
  const auto answer = Ask(question, kStart + 300);
  EXPECT_EQ(answer.step, 1);
  const auto& points = answer.series.at(0).curves.at(0).points;
  EXPECT_EQ(points.at(150).mean, 0.5F);
  EXPECT_FALSE(IsPoint(points.at(225)));
  EXPECT_EQ(points.at(275).mean, 0.25F) << "of its own second alone";
}

// Every bucket appears once, before and after a restart, whether it was flushed, sealed or is open.
TEST_F(MetricStoreTest, AnHourIsCompleteAcrossFlushesAndARestart) {
  samples::Second at = kStart;
  for (; at < kStart + 2000; ++at) samples_->Add(SecondOf(at, 0.5), at);
  MetricStore::Question question;
  question.range = {kStart, kStart + 3600, 4000};
  EXPECT_EQ(PointsOf(Ask(question, at)), 200);
  samples_->Close();
  OpenSamples();
  EXPECT_EQ(PointsOf(Ask(question, at)), 200);
  for (; at < kStart + 3600; ++at) samples_->Add(SecondOf(at, 0.5), at);
  const auto answer = Ask(question, at);
  EXPECT_EQ(answer.step, 10);
  EXPECT_EQ(PointsOf(answer), 360);
  for (const auto& point : answer.series[0].curves[0].points) EXPECT_EQ(point.mean, 0.5F);
}

TEST_F(MetricStoreTest, AJobsSamplesAreCompleteAfterItsEndAndARestart) {
  for (int i = 0; i < 1000; ++i) samples_->Add(SecondOf(kStart + i, 0.5, i < 700 ? 17 : 0), kStart + i);
  MetricStore::Question question;
  question.of = Of::kJob;
  question.job = 17;
  question.range.points = 1000;
  const auto before = Ask(question, kStart + 1000);
  ASSERT_EQ(before.series.size(), 1U);
  EXPECT_EQ(before.begin, kStart);
  EXPECT_EQ(before.step, 2);
  samples_->Close();
  OpenSamples();
  const auto after = Ask(question, kStart + 1000);
  ASSERT_EQ(after.series.size(), 1U);
  EXPECT_EQ(PointsOf(after), PointsOf(before));
  EXPECT_EQ(after.series[0].curves.size(), 2U);
  EXPECT_EQ(after.series[0].curves[1].name, "loss");
  question.job = 18;
  EXPECT_TRUE(Ask(question, kStart + 1000).series.empty());
}

TEST_F(MetricStoreTest, AJobThatRunsThroughARestartContinuesItsSeries) {
  for (int i = 0; i < 100; ++i) samples_->Add(SecondOf(kStart + i, 0.5, 17), kStart + i);
  samples_->Close();
  OpenSamples();
  samples_->Add(SecondOf(kStart + 100, 0.5, 17), kStart + 100);
  RunOnePosted();  // Loads the stored data of the job.
  samples_->Add(SecondOf(kStart + 101, 0.5, 17), kStart + 101);
  MetricStore::Question question;
  question.of = Of::kJob;
  question.job = 17;
  question.metrics = {"cpu_cores"};
  const auto answer = Ask(question, kStart + 102);
  EXPECT_EQ(answer.begin, kStart);
  EXPECT_EQ(PointsOf(answer), 102);
}

TEST_F(MetricStoreTest, SamplesOfAGangAreOneJob) {
  for (int i = 0; i < 10; ++i) {
    samples_->Add(SecondOf(kStart + i, 0.5, 17), kStart + i);
    samples::Snapshot other;
    other.at = kStart + i;
    other.samples.push_back({{Of::kJob, "n2", -1, -1, 17}, {{Metric::kCpuCores, 3, ""}}});
    samples_->Add(other, kStart + i);
  }
  MetricStore::Question question;
  question.of = Of::kJob;
  question.job = 17;
  question.metrics = {"cpu_cores"};
  const auto answer = Ask(question, kStart + 10);
  ASSERT_EQ(answer.series.size(), 1U);
  EXPECT_EQ(answer.series[0].curves[0].points[3].mean, 4);
}

TEST_F(MetricStoreTest, AnUnwritableFileCostsOnlyTheHistory) {
  samples_.reset();
  std::filesystem::remove_all(folder_);
  OpenSamples();
  for (int i = 0; i < 1000; ++i) samples_->Add(SecondOf(kStart + i, 0.5), kStart + i);
  MetricStore::Question question;
  EXPECT_GT(PointsOf(Ask(question, kStart + 1000)), 200);
  ASSERT_FALSE(notes_.empty());
  EXPECT_EQ(notes_.size(), 1U) << "said again and again";
  EXPECT_TRUE(notes_[0].starts_with("event=samples_not_kept error=\"cannot open ")) << notes_[0];
}

}  // namespace metric_store_test
}  // namespace divvy
