#include "control/controller/controller.h"

#include <gtest/gtest.h>

#include <set>

#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_progress_test {

using namespace std::chrono_literals;

JobId Running(World& world, int gpus) {
  const JobId job = world.Submit(gpus);
  world.Turn();
  world.controller_.OnStarted(job, 1, world.now_);
  return job;
}

Result<Progress> Say(World& world, JobId job, double part, std::uint32_t attempt = 0) {
  return world.controller_.ReportProgress(job, attempt, {part, 0, 0}, world.ada_, world.now_);
}

std::size_t RowsOf(const Effects& effects, JobId job) {
  std::size_t rows = 0;
  for (const JobRecord& record : effects.batch.updates) rows += record.id == job ? 1 : 0;
  return rows;
}

TEST(ReportedProgress, IsStoredAtMostEveryTenSeconds) {
  World world(2);
  const JobId job = Running(world, 1);
  world.Turn();
  std::size_t rows = 0;
  for (int step = 0; step < 100; ++step) {
    ASSERT_TRUE(Say(world, job, step / 1000.0));
    rows += RowsOf(world.Turn(), job);
    world.now_ += 200ms;
  }
  EXPECT_EQ(rows, 2u) << "at once, and after ten seconds";
  EXPECT_EQ(world.controller_.UnkeptProgress().updates.size(), 1u);
  // It reports no more; its last report is persisted nevertheless.
  ASSERT_LE(world.controller_.next_wakeup(), world.now_ + 10s);
  world.now_ = std::max(world.now_, world.controller_.next_wakeup());
  const Effects effects = world.Turn();
  ASSERT_EQ(RowsOf(effects, job), 1u);
  EXPECT_EQ(effects.batch.updates.front().progress.done, 99'000'000);
  EXPECT_TRUE(world.controller_.UnkeptProgress().updates.empty());
  world.now_ += 20s;
  EXPECT_EQ(RowsOf(world.Turn(), job), 0u);
}

TEST(ReportedProgress, IsRefusedForOthersJobsOldRunsAndWaitingJobs) {
  World world(1);
  const JobId job = Running(world, 1);
  const JobId waiting = world.Submit(1);
  world.Turn();
  Caller eve;
  eve.user = {1001, 1001, "eve"};
  const auto by_eve = world.controller_.ReportProgress(job, 0, {0.5, 0, 0}, eve, world.now_);
  ASSERT_FALSE(by_eve);
  EXPECT_EQ(by_eve.error().code, ErrorCode::kPermissionDenied);
  EXPECT_FALSE(Say(world, waiting, 0.5));
  EXPECT_FALSE(Say(world, JobId(99), 0.5));
  EXPECT_FALSE(Say(world, job, 0.5, 7)) << "a run that is over";
  EXPECT_TRUE(Say(world, job, 0.5, 1));
  const auto back = Say(world, job, 0.4);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("job " + ToString(job) + ": it has reported 50%"), std::string::npos)
      << back.error().message;
  EXPECT_EQ(world.controller_.Find(job)->progress.done, 500'000'000) << "what was refused changes nothing";
}

TEST(ReportedProgress, TellsWaitingJobsWhenTheGpuIsFree) {
  World world(1);
  const JobId job = Running(world, 1);
  const JobId waiting = world.Submit(1);
  world.Turn();
  const auto expected = [&] {
    return Explain(world.controller_.scheduler(), waiting, world.now_, world.controller_.run_spread());
  };
  EXPECT_EQ(expected().start.typical, kNever);
  ASSERT_TRUE(Say(world, job, 0.1));
  world.now_ += 100s;
  ASSERT_TRUE(Say(world, job, 0.2));
  world.Turn();
  EXPECT_NEAR(ToSeconds(expected().start.typical - world.now_), 800, 1);
  EXPECT_NEAR(ToSeconds(expected().start.earliest - world.now_), 600, 1);
  EXPECT_NEAR(ToSeconds(expected().start.latest - world.now_), 1200, 1);
  // The report was false. This harms no other job: the job continues, and so do its reports.
  world.now_ += 10s;
  ASSERT_TRUE(Say(world, job, 1));
  world.now_ += 1h;
  world.Turn();
  EXPECT_EQ(world.StateOf(job), JobState::kRunning);
  EXPECT_EQ(world.StateOf(waiting), JobState::kQueued);
  EXPECT_GT(expected().start.typical, world.now_);
}

/// The end that the engine was last given, counted from `start`.
double ToldEnd(const World& world, JobId job, Time start) {
  return ToSeconds(world.controller_.scheduler().running(job)->predicted_end - start);
}

TEST(ReportedProgress, ReachesTheEngineOnlyIfTheEndMovesByTenSecondsAndTwoPercent) {
  World world(1);
  const JobId job = Running(world, 1);
  const Time start = world.now_;
  ASSERT_TRUE(Say(world, job, 0));
  world.now_ += 100s;
  ASSERT_TRUE(Say(world, job, 0.1));
  EXPECT_NEAR(ToldEnd(world, job, start), 1000, 0.001);
  const Time told = world.controller_.scheduler().running(job)->predicted_end;
  std::set<Time> expected;
  for (int second = 101; second <= 200; ++second) {
    world.now_ += 1s;
    ASSERT_TRUE(Say(world, job, second / 1000.0 + (second % 2 == 1 ? 0.001 : 0)));
    expected.insert(*ExpectedEnd(*world.controller_.Find(job)));
    EXPECT_EQ(world.controller_.scheduler().running(job)->predicted_end, told) << second;
  }
  EXPECT_GT(expected.size(), 50u);
  // 15 s out of 785 remaining, and 20 s out of 780.
  ASSERT_TRUE(Say(world, job, 200.0 / 985));
  EXPECT_EQ(world.controller_.scheduler().running(job)->predicted_end, told);
  ASSERT_TRUE(Say(world, job, 200.0 / 980));
  EXPECT_NEAR(ToldEnd(world, job, start), 980, 0.001);
}

TEST(ReportedProgress, ReachesTheEngineIfTheJobRunsPastItsExpectedEnd) {
  World world(1);
  const JobId job = Running(world, 1);
  const Time start = world.now_;
  ASSERT_TRUE(Say(world, job, 0));
  world.now_ = start + 100s;
  ASSERT_TRUE(Say(world, job, 0.1));
  world.now_ = start + 995s;
  ASSERT_TRUE(Say(world, job, 995.0 / 1009));
  EXPECT_NEAR(ToldEnd(world, job, start), 1000, 0.001);
  world.now_ = start + 1001s;
  ASSERT_TRUE(Say(world, job, 1001.0 / 1009));
  EXPECT_NEAR(ToldEnd(world, job, start), 1009, 0.001);
}

TEST(ReportedProgress, NeverMovesAReservation) {
  World world(2);
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "limited";
  spec.request.gpus = 1;
  spec.time_limit = 1h;
  const JobId job = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory())->id;
  world.Turn();
  world.controller_.OnStarted(job, 1, world.now_);
  const JobId big = world.Submit(2);
  world.Turn();
  const auto reserved_start = [&] {
    const auto starts = world.controller_.scheduler().core().reservations();
    return starts.size() == 1 ? starts.front().start : kNever;
  };
  EXPECT_EQ(reserved_start(), world.now_ + 1h);
  const Time until = world.now_ + 1h;
  ASSERT_TRUE(Say(world, job, 0.1));
  world.now_ += 60s;
  ASSERT_TRUE(Say(world, job, 0.9));
  world.Turn();
  EXPECT_EQ(reserved_start(), until);
  EXPECT_EQ(world.StateOf(big), JobState::kQueued);
}

TEST(ReportedProgress, IsRestoredWithTheExpectedEndAfterARestart) {
  World world(1);
  const JobId job = Running(world, 1);
  const JobId waiting = world.Submit(1);
  ASSERT_TRUE(Say(world, job, 0.1));
  world.now_ += 100s;
  ASSERT_TRUE(Say(world, job, 0.2));
  world.Turn();
  World again(1);
  again.now_ = world.now_;
  again.controller_.Load(World::Stored({*world.controller_.Find(job), *world.controller_.Find(waiting)}), {},
                         waiting.value() + 1, 2, World::NoHistory());
  again.Turn();
  EXPECT_EQ(again.controller_.Find(job)->progress, world.controller_.Find(job)->progress);
  const auto explained = Explain(again.controller_.scheduler(), waiting, again.now_, again.controller_.run_spread());
  EXPECT_NEAR(ToSeconds(explained.start.typical - again.now_), 800, 1);
}

TEST(ReportedProgress, IsResetByTheNextRun) {
  World world(1);
  const JobId job = world.Submit(1, 0, {}, 1);
  world.Turn();
  ASSERT_TRUE(Say(world, job, 0.7));
  world.Exit(job, 1);
  world.now_ += 60s;
  world.Turn();
  EXPECT_EQ(world.controller_.Find(job)->progress.at, kNoTime);
  EXPECT_TRUE(Say(world, job, 0.1));
  EXPECT_FALSE(Say(world, job, 0.2, 1)) << "its first run is over";
}

TEST(ReportedProgress, IsMeasuredAfreshAfterAPause) {
  World world(1);
  const JobId job = Running(world, 1);
  ASSERT_TRUE(Say(world, job, 0.1));
  world.now_ += 100s;
  ASSERT_TRUE(Say(world, job, 0.2));
  ASSERT_TRUE(world.controller_.Pause(job, world.ada_, world.now_));
  world.now_ += 10h;
  ASSERT_TRUE(world.controller_.Resume(job, world.ada_, world.now_));
  EXPECT_FALSE(ExpectedEnd(*world.controller_.Find(job)));
  ASSERT_TRUE(Say(world, job, 0.2));
  world.now_ += 100s;
  ASSERT_TRUE(Say(world, job, 0.3));
  ASSERT_TRUE(ExpectedEnd(*world.controller_.Find(job)));
  EXPECT_NEAR(ToSeconds(*ExpectedEnd(*world.controller_.Find(job)) - world.now_), 700, 1);
}

}  // namespace controller_progress_test
}  // namespace divvy
