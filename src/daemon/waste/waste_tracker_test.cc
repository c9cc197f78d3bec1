#include "daemon/waste/waste_tracker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>

#include "daemon/telemetry/samples_test_world.h"

namespace divvy {
namespace waste_tracker_test {

using samples::Metric;
using samples::Of;
using samples::Second;

constexpr Second kStart = 1'790'000'100;
constexpr double kGib = 1 << 30;

class WasteTrackerTest : public testing::Test {
 protected:
  explicit WasteTrackerTest(int gpus = 8) {
    TeamsFile teams;
    teams.prices = {{"H100", 2000}};
    EXPECT_TRUE(controller_.UseTeamsFile(teams));
    controller_.SetCapacity(MachineOfH100s(gpus));
    ada_.user = {1000, 1000, "ada"};
  }

  JobId Run(int gpus, const std::string& name = "train") {
    JobSpec spec;
    spec.name = name;
    spec.request.gpus = gpus;
    spec.request.cpus = 2;
    return Start(std::move(spec));
  }
  JobId Start(JobSpec spec) { return StartJob(controller_, std::move(spec), ada_, Now()); }
  Time Now() const { return TimeFromSeconds(static_cast<double>(now_)); }

  // Adds samples every ten seconds for so many minutes, all GPUs used alike; returns the news.
  std::vector<WasteTracker::News> Watch(WasteTracker& tracker, int minutes, double use, double memory = 40 * kGib) {
    std::vector<WasteTracker::News> all;
    for (int i = 0; i < minutes * 6; ++i) {
      now_ += 10;
      samples::Snapshot seen;
      seen.at = now_;
      for (const GpuFacts& gpu : controller_.scheduler().nodes()[0].capacity.gpus) {
        seen.samples.push_back({{Of::kGpu, "own", gpu.index, -1, 0},
                                {{Metric::kGpuUtilization, use, ""}, {Metric::kGpuMemoryUsed, memory, ""}}});
      }
      for (const auto& [id, record] : controller_.live()) {
        seen.samples.push_back({{Of::kJob, "own", -1, -1, id.value()},
                                {{Metric::kGpuUtilization, use, ""},
                                 {Metric::kGpuMemoryUsed, memory, ""},
                                 {Metric::kCpuCores, cores_, ""}}});
      }
      seen.samples.push_back({{Of::kNode, "own", -1, -1, 0}, {{Metric::kCpuUtilization, machine_, ""}}});
      samples_.Add(seen, now_);
      for (WasteTracker::News& news : tracker.Look(controller_, samples_, now_)) all.push_back(std::move(news));
    }
    return all;
  }

  Controller controller_{Policy(), Limits(), 1};
  Caller ada_;
  MetricStore samples_{MetricStore::Options{"", 10_MiB, Duration(0), 1'000'000'000},
                       {[](const std::function<void()>&) {}, [](const std::string&) {}}};
  Second now_ = kStart;
  double cores_ = 1;      // Cores that each job keeps busy.
  double machine_ = 0.1;  // The busy fraction of all cores.
};

TEST_F(WasteTrackerTest, AnIdleJobIsWarnedOnceAndShownWithItsCost) {
  WasteTracker tracker(WasteRules(), "own");
  const JobId job = Run(4);
  EXPECT_TRUE(Watch(tracker, 39, 0).empty());
  const auto news = Watch(tracker, 21, 0);
  ASSERT_EQ(news.size(), 1U) << "once";
  EXPECT_EQ(news[0].job, job);
  EXPECT_EQ(news[0].text,
            "wastes 4 GPUs: it does nothing with its 4 GPUs: 0% for 39 min; divvy cancel " + ToString(job));
  const auto view = tracker.View(controller_, now_);
  ASSERT_EQ(view.jobs.size(), 1U);
  EXPECT_EQ(view.wasted_gpus, 4);
  EXPECT_EQ(view.jobs[0].user, "ada");
  EXPECT_NEAR(view.jobs[0].lost_gpu_hours, 4, 0.05);
  EXPECT_NEAR(*view.jobs[0].lost_cost, 8, 0.1) << "two an hour";
  EXPECT_EQ(view.jobs[0].findings.at(0).kind, "idle");
  EXPECT_EQ(view.jobs[0].findings.at(0).remedy, "divvy cancel " + ToString(job));
}

TEST_F(WasteTrackerTest, ABusyJobAndAJobWithoutGpusAreNotWarned) {
  WasteTracker tracker(WasteRules(), "own");
  Run(4);
  Run(0);
  EXPECT_TRUE(Watch(tracker, 120, 0.8).empty());
  EXPECT_TRUE(tracker.View(controller_, now_).jobs.empty());
}

TEST_F(WasteTrackerTest, WarningsSurviveARestart) {
  WasteRules rules;
  rules.action = WasteAction::kStop;
  std::map<std::string, std::string> store;
  const auto keep = [&](WasteTracker& tracker) {
    for (const auto& [key, text] : tracker.TakeSettings(controller_)) {
      if (text.empty()) store.erase(key);
      else store[key] = text;
    }
  };
  WasteTracker tracker(rules, "own");
  const JobId job = Run(1);
  const JobId other = Run(1);
  ASSERT_EQ(Watch(tracker, 41, 0).size(), 2U) << "a first warning each";
  keep(tracker);
  ASSERT_EQ(store.size(), 2U);
  keep(tracker);

  // Nothing is known of the time before: the first warning is neither repeated nor forgotten.
  WasteTracker next(rules, "own");
  for (const auto& [key, text] : store) EXPECT_TRUE(next.LoadSetting(key, text));
  EXPECT_FALSE(next.LoadSetting("notify.gpus", "[]"));
  EXPECT_TRUE(Watch(next, 29, 0).empty());
  controller_.OnExited(other, controller_.Find(other)->attempt, Exit{}, Now(), Now());
  const auto news = Watch(next, 2, 0);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].job, job);
  EXPECT_TRUE(news[0].text.starts_with("is warned (2 of 2)")) << news[0].text;
  keep(next);
  EXPECT_EQ(store.size(), 1U) << "of one that has ended nothing is kept";
  EXPECT_EQ(Watch(next, 16, 0).at(0).action, WasteAction::kStop);

  // A job that works after the restart starts without warnings.
  WasteTracker third(rules, "own");
  for (const auto& [key, text] : store) third.LoadSetting(key, text);
  EXPECT_TRUE(Watch(third, 1, 0.5).empty());
  keep(third);
  const auto anew = Watch(third, 40, 0);
  ASSERT_EQ(anew.size(), 1U);
  EXPECT_TRUE(anew[0].text.starts_with("is warned (1 of 2)")) << anew[0].text;
}

TEST_F(WasteTrackerTest, AnEndedJobIsToldTheRightRequest) {
  WasteTracker tracker(WasteRules(), "own");
  const JobId job = Run(4);
  JobRecord record = *controller_.Find(job);
  EXPECT_EQ(tracker.CountsFrom(record), static_cast<Second>(ToSeconds(record.started)) + 600);
  EXPECT_FALSE(tracker.JudgesEnded(record)) << "it runs";
  record.state = JobState::kSucceeded;
  record.ended = record.started + std::chrono::minutes(39);
  EXPECT_FALSE(tracker.JudgesEnded(record)) << "too short for any finding";
  record.ended = record.started + std::chrono::minutes(130);
  EXPECT_TRUE(tracker.JudgesEnded(record));
  samples::JobUse use;
  use.machines = 1;
  use.seconds = 7200;
  use.use_seconds = 1440;
  auto findings = tracker.OfEnded(record, use, {}, controller_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, "underused");
  EXPECT_EQ(findings[0].remedy, "submit it with --gpus 1");
  use.use_seconds = 0;
  use.idle_seconds = use.idle_tail = 7200;
  findings = tracker.OfEnded(record, use, {}, controller_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].remedy, "submit it with --gpus 0 if it needs no GPU");
  WasteRules rules;
  rules.exempt_users = {"ada"};
  EXPECT_FALSE(WasteTracker(rules, "own").JudgesEnded(record));
}

TEST_F(WasteTrackerTest, WithoutACpuRequestTheNodesCoresAreTheBottleneck) {
  WasteTracker tracker(WasteRules(), "own");
  JobSpec spec;
  spec.request.gpus = 2;
  const JobId job = Start(std::move(spec));
  cores_ = 9;
  machine_ = 0.99;
  Watch(tracker, 75, 0.3);
  const auto view = tracker.View(controller_, now_);
  ASSERT_EQ(view.jobs.size(), 1U);
  EXPECT_EQ(view.jobs[0].id, job);
  EXPECT_EQ(view.jobs[0].findings.at(0).kind, "cpu_bound");
  EXPECT_EQ(view.jobs[0].findings.at(0).remedy, "submit it with --cpus 18")
      << "a quarter of the GPUs is 16 of 64 cores";
}

TEST_F(WasteTrackerTest, ExemptJobsAreLeftAlone) {
  WasteRules rules;
  rules.exempt_names = {"notebook*", "debug"};
  WasteTracker tracker(rules, "own");
  Run(1, "notebook-7");
  Run(1, "debug");
  const JobId job = Run(1, "debugger");
  const auto news = Watch(tracker, 60, 0);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].job, job);
  rules.exempt_users = {"ada"};
  WasteTracker without(rules, "own");
  EXPECT_TRUE(Watch(without, 60, 0).empty());
}

TEST_F(WasteTrackerTest, AFractionIsResizedInPlace) {
  WasteTracker tracker(WasteRules(), "own");
  JobSpec spec;
  spec.request.gpus = 1;
  spec.request.portion.request = GpuShare(5000);
  const JobId job = Start(std::move(spec));
  Watch(tracker, 75, 0.04, 4 * kGib);
  const auto view = tracker.View(controller_, now_);
  ASSERT_EQ(view.jobs.size(), 1U);
  EXPECT_EQ(view.jobs[0].findings.at(0).remedy, "divvy resize " + ToString(job) + " --gpus 0.1");
  EXPECT_NEAR(view.jobs[0].gpu_hours, 0.5 * 75 / 60, 0.01);
}

TEST_F(WasteTrackerTest, ANewRunIsJudgedAfreshAndEndedJobsAreForgotten) {
  WasteTracker tracker(WasteRules(), "own");
  const JobId job = Run(1);
  EXPECT_EQ(Watch(tracker, 60, 0).size(), 1U);
  Exit exit;
  controller_.OnExited(job, controller_.Find(job)->attempt, exit, Now(), Now());
  EXPECT_TRUE(tracker.View(controller_, now_).jobs.empty());
  Run(1);
  EXPECT_TRUE(Watch(tracker, 39, 0).empty());
  EXPECT_EQ(Watch(tracker, 2, 0).size(), 1U);
}

TEST_F(WasteTrackerTest, AJobThatKeepsWastingIsWarnedTwiceAndThenStopped) {
  WasteRules rules;
  rules.action = WasteAction::kStop;
  rules.warn_every = std::chrono::minutes(10);
  WasteTracker tracker(rules, "own");
  const JobId job = Run(4);
  const std::string remedy = "divvy cancel " + ToString(job);
  auto news = Watch(tracker, 41, 0);
  ASSERT_EQ(news.size(), 1U) << "the warning names it";
  EXPECT_EQ(news[0].text,
            "is warned (1 of 2) that it wastes 4 GPUs: it does nothing with its 4 GPUs: 0% for 39 min; "
            "it is stopped in 20 min unless it uses them; " +
                remedy);
  const auto view = tracker.View(controller_, now_);
  ASSERT_EQ(view.jobs.size(), 1U);
  EXPECT_EQ(view.jobs[0].action, "stop");
  EXPECT_EQ(view.jobs[0].action_text, "stopped");
  EXPECT_EQ(view.jobs[0].warnings, 1);
  EXPECT_EQ(view.jobs[0].max_warnings, 2);
  EXPECT_NEAR(*view.jobs[0].action_time, static_cast<double>(kStart + 60 * 60), 30);
  news = Watch(tracker, 10, 0);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_NE(news[0].text.find("is warned (2 of 2)"), std::string::npos) << news[0].text;
  EXPECT_EQ(news[0].action, WasteAction::kNone);
  news = Watch(tracker, 10, 0);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].action, WasteAction::kStop);
  EXPECT_NE(news[0].text.find("is stopped, because it wastes 4 GPUs: it does nothing"), std::string::npos)
      << news[0].text;
  tracker.OnAction(news[0], true, now_);
  EXPECT_FALSE(tracker.View(controller_, now_).jobs.at(0).action_time) << "it is done";
  EXPECT_TRUE(Watch(tracker, 30, 0).empty());
}

TEST_F(WasteTrackerTest, AJobThatWastesEveryRunIsHeldAfterTheThird) {
  WasteRules rules;
  rules.action = WasteAction::kRequeue;
  auto tracker = std::make_unique<WasteTracker>(rules, "own");
  const JobId job = Run(4);
  Caller divvy;
  divvy.is_admin = true;
  for (int run = 1; run <= 3; ++run) {
    std::vector<WasteTracker::News> news;
    while (news.empty() || news.back().action == WasteAction::kNone) {
      ASSERT_LT(now_, kStart + 24 * 3600);
      for (WasteTracker::News& one : Watch(*tracker, 1, 0)) news.push_back(std::move(one));
    }
    EXPECT_EQ(news.back().action, run < 3 ? WasteAction::kRequeue : WasteAction::kPause);
    EXPECT_NE(news.back().text.find(run < 3 ? "is queued again, because" : "is queued again and held, because"),
              std::string::npos)
        << news.back().text;
    tracker->OnAction(news.back(), true, now_);
    ASSERT_TRUE(controller_.Requeue(job, RequeueAs::kQueued, divvy, Now()));
    // A restarted daemon still knows how often the job was queued again.
    std::map<std::string, std::string> rows;
    const auto keep = [&] {
      for (auto& [key, text] : tracker->TakeSettings(controller_)) rows[key] = text;
    };
    keep();
    controller_.OnExited(job, controller_.Find(job)->attempt, Exit(), Now(), Now());
    Watch(*tracker, 1, 0);
    keep();
    tracker = std::make_unique<WasteTracker>(rules, "own");
    for (const auto& [key, text] : rows) tracker->LoadSetting(key, text);
    controller_.Decide(Now());
    controller_.TakeEffects();
    controller_.OnStarted(job, controller_.Find(job)->attempt, Now());
    ASSERT_EQ(controller_.Find(job)->state, JobState::kRunning);
  }
}

TEST_F(WasteTrackerTest, UsingTheGpusWithdrawsTheWarning) {
  WasteRules rules;
  rules.action = WasteAction::kPause;
  rules.underused = rules.small_memory = 0;
  WasteTracker tracker(rules, "own");
  Run(2);
  EXPECT_EQ(Watch(tracker, 41, 0).size(), 1U);
  EXPECT_TRUE(Watch(tracker, 1, 0.5).empty());
  EXPECT_TRUE(Watch(tracker, 20, 0).empty()) << "no second warning";
  const auto news = Watch(tracker, 12, 0);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_NE(news[0].text.find("is warned (1 of 2)"), std::string::npos) << news[0].text;
  EXPECT_NE(news[0].text.find("it is queued again and held in 30 min"), std::string::npos) << news[0].text;
}

TEST_F(WasteTrackerTest, AJobsOwnSettingOverridesTheDefault) {
  WasteRules rules;
  rules.action = WasteAction::kPark;
  rules.exempt_names = {"notebook*"};
  const auto wish = [](const JobRecord& record) {
    return record.name == "notebook-wants" || record.name == "wants" ? WasteAction::kRequeue : WasteAction::kNone;
  };
  WasteTracker tracker(rules, "own", wish);
  const JobId whole = Run(1);
  const JobId wants = Run(1, "wants");
  const JobId exempt = Run(1, "notebook-wants");
  Run(1, "notebook");
  std::map<JobId, std::string> told;
  for (const auto& news : Watch(tracker, 41, 0)) told[news.job] += news.text;
  EXPECT_TRUE(told[whole].starts_with("wastes 1 GPU")) << "whole GPUs are not parked: " << told[whole];
  EXPECT_TRUE(told[wants].starts_with("is warned")) << told[wants];
  EXPECT_TRUE(told[exempt].starts_with("is warned")) << told[exempt];
  EXPECT_EQ(told.size(), 3U);
}

TEST_F(WasteTrackerTest, OnlyConfiguredActionsAreTaken) {
  WasteRules rules;
  rules.action = WasteAction::kStop;
  rules.action_on = {"underused"};
  rules.small_memory = 0;
  WasteTracker tracker(rules, "own");
  Run(2);
  const auto idle = Watch(tracker, 41, 0);
  ASSERT_EQ(idle.size(), 1U);
  EXPECT_TRUE(idle[0].text.starts_with("wastes")) << idle[0].text;
  const auto underused = Watch(tracker, 40, 0.1);
  ASSERT_GE(underused.size(), 1U);
  EXPECT_TRUE(underused[0].text.starts_with("is warned (1 of 2)")) << underused[0].text;
}

}  // namespace waste_tracker_test
}  // namespace divvy
