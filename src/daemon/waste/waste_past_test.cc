#include "daemon/waste/waste_past.h"

#include <gtest/gtest.h>

#include <memory>

#include "daemon/telemetry/samples_test_world.h"
#include "daemon/waste/waste_ended.h"
#include "daemon/waste/waste_report.h"
#include "daemon/waste/waste_tracker.h"

namespace divvy {
namespace waste_past_test {

using samples::Metric;
using samples::Of;
using samples::Second;

constexpr Second kStart = 1'790'000'100;
constexpr double kGib = 1 << 30;

class WastePastTest : public MetricStoreOnDisk {
 protected:
  WastePastTest() {
    controller_.SetCapacity(MachineOfH100s(4));
    ada_.user = {1000, 1000, "ada"};
    Begin();
  }

  /// Restarts the daemon.
  void Open() {
    samples_->Close();
    OpenSamples();
    Begin();
  }
  void Begin() {
    store_ = std::make_unique<WasteTracker>(WasteRules(), "own");
    store_->ExpectPast();
  }

  JobId Run(int gpus) {
    JobSpec spec;
    spec.request.gpus = gpus;
    return StartJob(controller_, std::move(spec), ada_, Now());
  }
  Time Now() const { return TimeFromSeconds(static_cast<double>(now_)); }

  /// Adds samples every ten seconds for so many minutes; GPU i is used as uses[i].
  std::vector<WasteTracker::News> Watch(int minutes, const std::vector<double>& uses) {
    std::vector<WasteTracker::News> all;
    for (int i = 0; i < minutes * 6; ++i) {
      now_ += 10;
      samples::Snapshot seen;
      seen.at = now_;
      double sum = 0;
      for (std::size_t gpu = 0; gpu < uses.size(); ++gpu) {
        sum += uses[gpu];
        seen.samples.push_back({{Of::kGpu, "own", static_cast<int>(gpu), -1, 0},
                                {{Metric::kGpuUtilization, uses[gpu], ""}, {Metric::kGpuMemoryUsed, 40 * kGib, ""}}});
      }
      seen.samples.push_back({{Of::kNode, "own", -1, -1, 0}, {{Metric::kCpuUtilization, 0.5, ""}}});
      for (const auto& [id, record] : controller_.live()) {
        samples::Sample& of_job = seen.samples.emplace_back();
        of_job.subject = {Of::kJob, "own", -1, -1, id.value()};
        of_job.readings = {{Metric::kGpuMemoryUsed, 160 * kGib, ""}, {Metric::kGpuMemoryMost, 40 * kGib, ""}};
        if (record.state == JobState::kPaused) continue;
        of_job.readings.push_back({Metric::kGpuUtilization, sum / static_cast<double>(uses.size()), ""});
        of_job.readings.push_back({Metric::kCpuCores, 3, ""});
      }
      samples_->Add(seen, now_);
      for (WasteTracker::News& news : store_->Look(controller_, *samples_, now_)) all.push_back(std::move(news));
      for (const JobRecord& record : store_->TakeUnknown(controller_)) {
        past_ = Await<WastePast>(
            [&](const auto& done) { AskPast(*samples_, record, "own", store_->LooksBack(), now_, done); });
        store_->Resume(record, past_->use, past_->looks, past_->idle_since);
      }
    }
    return all;
  }

  std::vector<wire::WasteFinding> AskOfEnded(const JobRecord& record, Second now) {
    return Await<std::vector<wire::WasteFinding>>(
        [&](const auto& done) { AskEndedWaste(*samples_, *store_, controller_, record, now, done); });
  }
  std::string KeptOf(JobId job) {
    return Await<std::string>([&](const auto& done) { samples_->AskKept(job.value(), done); });
  }

  Controller controller_{Policy(), Limits(), 1};
  Caller ada_;
  std::unique_ptr<WasteTracker> store_;
  std::optional<WastePast> past_;
  Second now_ = kStart;
};

TEST_F(WastePastTest, LostHoursAndIdleTimeSurviveARestart) {
  Watch(1, {0, 0, 0, 0});
  Run(4);
  EXPECT_TRUE(Watch(60, {0.9, 0.9, 0.9, 0.9}).empty());
  ASSERT_EQ(Watch(60, {0, 0, 0, 0}).size(), 1U);
  const double lost = store_->View(controller_, now_).jobs.at(0).lost_gpu_hours;
  EXPECT_NEAR(lost, 4.4, 0.1);
  EXPECT_FALSE(past_) << "this daemon saw it begin";

  Open();
  Watch(1, {0, 0, 0, 0});
  ASSERT_TRUE(past_);
  EXPECT_NEAR(past_->use.idle_tail, 3600, 60);
  const auto view = store_->View(controller_, now_);
  ASSERT_EQ(view.jobs.size(), 1U) << "half an hour is not waited for again";
  EXPECT_NEAR(view.jobs[0].lost_gpu_hours, lost + 4.0 / 60, 0.1);
  EXPECT_NEAR(view.jobs[0].gpu_hours, 8, 0.2);
  ASSERT_EQ(view.jobs[0].findings.size(), 1U);
  EXPECT_EQ(view.jobs[0].findings[0].kind, "idle");
  EXPECT_NEAR(static_cast<double>(now_) - view.jobs[0].findings[0].since, 3660, 90);

  // The past is loaded once.
  past_.reset();
  Watch(60, {0.5, 0.5, 0.5, 0.5});
  EXPECT_FALSE(past_);
  Watch(1, {0, 0, 0, 0});
  for (const auto& job : store_->View(controller_, now_).jobs) EXPECT_NE(job.findings.at(0).kind, "idle");
}

TEST_F(WastePastTest, EachGpuIsTrackedSeparately) {
  Run(4);
  EXPECT_EQ(Watch(60, {0.9, 0, 0.9, 0}).size(), 1U);
  Open();
  Watch(1, {0.9, 0, 0.9, 0});
  const auto view = store_->View(controller_, now_);
  ASSERT_EQ(view.jobs.size(), 1U);
  EXPECT_EQ(view.jobs[0].findings.at(0).kind, "some_idle");
  EXPECT_EQ(view.jobs[0].findings.at(0).remedy, "submit it with --gpus 2");
}

// Looks at the past go back as far as the rules need, and no further.
TEST_F(WastePastTest, IdleTimeOfSomeGpusSurvivesRestarts) {
  Run(4);
  Watch(20, {0.9, 0.9, 0.9, 0.9});
  const Second idle_since = now_ + 10;
  Watch(150, {0.9, 0, 0.9, 0});
  const auto since = [&] {
    const auto view = store_->View(controller_, now_);
    return view.jobs.empty() ? 0 : static_cast<Second>(view.jobs[0].findings.at(0).since);
  };
  EXPECT_EQ(since(), idle_since);
  for (int i = 0; i < 2; ++i) {
    Open();
    Watch(1, {0.9, 0, 0.9, 0});
    EXPECT_NEAR(static_cast<double>(since()), static_cast<double>(idle_since), 60);
  }
  // A GPU that has worked since starts a new idle period.
  Watch(1, {0.9, 0.9, 0.9, 0.9});
  const Second again = now_ + 10;
  Watch(40, {0.9, 0, 0.9, 0});
  Open();
  Watch(1, {0.9, 0, 0.9, 0});
  EXPECT_NEAR(static_cast<double>(since()), static_cast<double>(again), 60);
  // The use in a time without samples is not known.
  Watch(60, {0.9, 0, 0.9, 0});
  Open();
  now_ += 3600;
  const Second begun = now_;
  Watch(40, {0.9, 0, 0.9, 0});
  EXPECT_GE(since(), begun);
}

TEST_F(WastePastTest, UnobservedTimeIsNotIdleTime) {
  Run(4);
  Watch(20, {0, 0, 0, 0});
  Open();
  now_ += 3600;
  EXPECT_TRUE(Watch(10, {0, 0, 0, 0}).empty()) << "nobody looked for an hour";
  EXPECT_TRUE(store_->View(controller_, now_).jobs.empty());
}

TEST_F(WastePastTest, PausedTimeIsNotIdleTime) {
  const JobId job = Run(4);
  Watch(25, {0, 0, 0, 0});
  ASSERT_TRUE(controller_.Pause(job, ada_, Now()));
  Watch(60, {0, 0, 0, 0});
  Open();
  ASSERT_TRUE(controller_.Resume(job, ada_, Now()));
  EXPECT_TRUE(Watch(10, {0, 0, 0, 0}).empty());
  ASSERT_TRUE(past_);
  EXPECT_NEAR(past_->use.seconds, 25 * 60, 90) << "neither used nor idle";
  EXPECT_NEAR(past_->use.idle_seconds, 25 * 60, 90);
  EXPECT_LT(past_->use.idle_tail, 60);
  EXPECT_TRUE(store_->View(controller_, now_).jobs.empty());
  ASSERT_EQ(Watch(21, {0, 0, 0, 0}).size(), 1U) << "half an hour anew";
}

// Two of its GPUs work only in the grace period, and use after its end belongs to another job.
TEST_F(WastePastTest, TheRightRequestOfAnEndedJobIsFoundOnceAndStored) {
  const JobId job = Run(4);
  Watch(9, {0.9, 0.9, 0.9, 0.9});
  Watch(60, {0.9, 0, 0.9, 0});
  controller_.OnExited(job, controller_.Find(job)->attempt, Exit{}, Now(), Now());
  controller_.Decide(Now());
  const auto finished = controller_.TakeEffects().finished;
  ASSERT_EQ(finished.size(), 1U);
  const JobRecord& record = finished.front();
  const Second ended = now_;
  // Samples of another node may still be arriving, so nothing is stored yet.
  EXPECT_EQ(AskOfEnded(record, ended).size(), 1U);
  EXPECT_EQ(KeptOf(job), "");
  Watch(1, {0.9, 0.9, 0.9, 0.9});
  const auto findings = AskOfEnded(record, now_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, "some_idle");
  EXPECT_EQ(findings[0].remedy, "submit it with --gpus 2");
  const std::string kept = KeptOf(job);
  ASSERT_TRUE(FindingsIn(kept, record.ended));
  EXPECT_EQ(FindingsIn(kept, record.ended)->at(0).text, "used 2 of its 4 GPUs; the others did nothing");
  EXPECT_FALSE(FindingsIn(kept, record.ended + std::chrono::hours(2))) << "another run";

  // The findings survive a restart, and appear in the report.
  Open();
  EXPECT_EQ(KeptOf(job), kept);
  wire::WasteReport report;
  report.by = "job";
  report.rows.emplace_back().job = wire::RowJob{job, "", "ada", "succeeded"};
  std::vector<ReportedRun> runs;
  AddRunOf(record, ReportBy::kJob, "own", runs);
  AddFindings(runs, {{job.value(), kept}}, report);
  ASSERT_EQ(report.rows[0].findings.size(), 1U);
  EXPECT_EQ(report.rows[0].findings[0].remedy, "submit it with --gpus 2");
  const auto all = Await<MetricStore::Kept>([&](const auto& done) {
    samples_->AskUses({kStart, now_, MetricStore::Pieces::kWhole},
                      [done](const MetricStore::Uses&, MetricStore::Kept found) { done(std::move(found)); });
  });
  EXPECT_EQ(all, (MetricStore::Kept{{job.value(), kept}}));
}

TEST_F(WastePastTest, TheMeanCoreUseOfItsNodeIsKnown) {
  const JobId job = Run(4);
  Watch(60, {0.3, 0, 0.3, 0.3});
  JobRecord record = *controller_.Find(job);
  record.ended = Now();
  const auto detail = Await<samples::RunDetail>([&](const auto& done) {
    AskEnded(*samples_, record, "own", kStart + 600, now_,
             [done](const samples::JobUse&, const samples::RunDetail& found) { done(found); });
  });
  EXPECT_NEAR(detail.machine_cpus.value_or(0), 0.5, 0.01);
  EXPECT_EQ(detail.gpus_unused, 1);
}

TEST_F(WastePastTest, ObservationsIncludeCoresOfTheJobAndTheNode) {
  Run(4);
  Watch(30, {0.3, 0.3, 0.3, 0.3});
  Open();
  Watch(1, {0.3, 0.3, 0.3, 0.3});
  ASSERT_TRUE(past_);
  ASSERT_GT(past_->looks.size(), 100U);
  const auto& look = past_->looks[past_->looks.size() / 2];
  ASSERT_EQ(look.gpus.size(), 4U);
  ASSERT_TRUE(look.gpus[1].use && look.gpus[1].memory && look.cpus && look.machine_cpus);
  EXPECT_NEAR(*look.gpus[1].use, 0.3, 0.01);
  EXPECT_NEAR(*look.gpus[1].memory, 40 * kGib, kGib / 10);
  EXPECT_NEAR(*look.cpus, 3, 0.05);
  EXPECT_NEAR(*look.machine_cpus, 0.5, 0.01);
}

}  // namespace waste_past_test
}  // namespace divvy
