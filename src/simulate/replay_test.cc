// Time in the replay, with a decider that follows a script.
#include "simulate/replay.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

namespace divvy::simulate {
namespace replay_test {

Time At(double seconds) { return TimeFromSeconds(seconds); }
Duration Seconds(double seconds) { return At(seconds).time_since_epoch(); }

Workload Jobs(const std::vector<std::tuple<double, double, int>>& jobs) {
  Workload workload;
  for (const auto& [submit, runtime, gpus] : jobs) {
    TraceJob job;
    job.submit = At(submit);
    job.runtime = Seconds(runtime);
    job.gpus = gpus;
    workload.jobs.push_back(job);
  }
  return workload;
}

/// Makes scripted decisions at given times, and logs all calls.
class Script : public Decider {
 public:
  void Submit(JobIndex job, const TraceJob&, Time now) override { Log("submit", job, now); }
  void Ended(JobIndex job, Time now) override { Log("end", job, now); }
  Decision Decide(Time now) override {
    Log("decide", -1, now);
    auto& said = says[ToSeconds(now)];
    if (said.empty()) return {};
    Decision decision = said.front();
    said.pop_front();
    return decision;
  }
  Time NextWakeup() const override { return wakeup; }

  std::map<double, std::deque<Decision>> says;
  Time wakeup = kNever;
  std::string log;

 private:
  void Log(const std::string& what, std::int64_t job, Time now) {
    log += what + (job < 0 ? "" : std::to_string(job)) + "@" + std::to_string(std::llround(ToSeconds(now))) + " ";
  }
};

Started Start(JobIndex job, int gpus, double speed = 1) { return {job, {{0, gpus}}, speed}; }

TEST(Replay, EndsComeBeforeArrivalsAndOneDecisionFollowsBoth) {
  const Workload workload = Jobs({{0, 10, 1}, {10, 5, 2}});
  Script script;
  script.says[0] = {{{}, {Start(0, 1)}}};
  script.says[10] = {{{}, {Start(1, 2)}}};
  const Replayed replayed = Replay(workload, script).value();
  EXPECT_EQ(script.log, "submit0@0 decide@0 end0@10 submit1@10 decide@10 end1@15 decide@15 ");
  ASSERT_EQ(replayed.outcomes.size(), 2u);
  EXPECT_EQ(replayed.outcomes[1].first_start, At(10));
  EXPECT_EQ(replayed.outcomes[1].end, At(15));
  EXPECT_EQ(replayed.outcomes[1].gpu_seconds, 10);
  EXPECT_EQ(replayed.load.integral().allocated_gpus, 20);
  EXPECT_EQ(replayed.load.end(), At(15));
  EXPECT_EQ(replayed.starts, 2);
}

TEST(Replay, AJobOfZeroDurationEndsAtOnce) {
  const Workload workload = Jobs({{3, 0, 1}});
  Script script;
  script.says[3] = {{{}, {Start(0, 1)}}};
  const Replayed replayed = Replay(workload, script).value();
  EXPECT_EQ(script.log, "submit0@3 decide@3 end0@3 decide@3 ");
  EXPECT_EQ(replayed.outcomes.front().end, At(3));
}

TEST(Replay, AStoppedJobContinuesOrRestarts) {
  for (const bool keeps : {true, false}) {
    const Workload workload = Jobs({{0, 10, 1}, {4, 2, 1}});
    Script script;
    script.says[0] = {{{}, {Start(0, 1)}}};
    script.says[4] = {{{{0, keeps}}, {Start(1, 1)}}};
    script.says[6] = {{{}, {Start(0, 1)}}};
    ReplayOptions options;
    options.restart_cost = 1s;
    const Replayed replayed = Replay(workload, script, options).value();
    const Outcome& stopped = replayed.outcomes[0];
    EXPECT_EQ(stopped.preemptions, 1);
    EXPECT_EQ(stopped.end, keeps ? At(13) : At(17)) << "6 or 10 s are left, and one to come back";
    EXPECT_EQ(stopped.first_start, At(0));
    EXPECT_EQ(stopped.held, keeps ? 11s : 15s);
    EXPECT_EQ(replayed.outcomes[1].end, At(6)) << "the end of the first attempt, at 10, is stale";
  }
}

TEST(Replay, CopiesHoldGpusBeforeTheRunBegins) {
  const Workload workload = Jobs({{0, 10, 1}, {4, 2, 1}});
  Script script;
  script.says[0] = {{{}, {Start(0, 1)}}};
  Started copied = Start(1, 1);
  copied.delay = 3s;
  script.says[4] = {{{{0, true}}, {copied}}};
  Started returned = Start(0, 1);
  returned.delay = 1s;
  script.says[9] = {{{}, {returned}}};
  const Replayed replayed = Replay(workload, script).value();
  EXPECT_EQ(replayed.outcomes[1].first_start, At(7));
  EXPECT_EQ(replayed.outcomes[1].end, At(9));
  EXPECT_EQ(replayed.outcomes[1].copying, 3s);
  EXPECT_EQ(replayed.outcomes[0].end, At(16)) << "6 s are left at 9, and one second passes before they run";
  EXPECT_EQ(replayed.outcomes[0].held, 11s);
  EXPECT_EQ(replayed.outcomes[0].copying, 1s);
}

TEST(Replay, AJobStoppedDuringACopyHasNotRun) {
  const Workload workload = Jobs({{0, 10, 1}});
  Script script;
  Started copied = Start(0, 1);
  copied.delay = 5s;
  script.says[0] = {{{}, {copied}}};
  script.says[2] = {{{{0, true}}, {Start(0, 1)}}};
  script.wakeup = At(2);
  class Once : public Decider {
   public:
    explicit Once(Script& script) : script_(script) {}
    void Submit(JobIndex job, const TraceJob& trace_job, Time now) override { script_.Submit(job, trace_job, now); }
    void Ended(JobIndex job, Time now) override { script_.Ended(job, now); }
    Decision Decide(Time now) override {
      if (now >= At(2)) script_.wakeup = kNever;
      return script_.Decide(now);
    }
    Time NextWakeup() const override { return script_.wakeup; }

   private:
    Script& script_;
  } decider(script);
  const Replayed replayed = Replay(workload, decider).value();
  EXPECT_EQ(replayed.outcomes[0].end, At(12));
  EXPECT_EQ(replayed.outcomes[0].copying, 2s);
}

TEST(Replay, AJobOnSlowGpusTakesLonger) {
  const Workload workload = Jobs({{0, 10, 2}});
  Script script;
  script.says[0] = {{{}, {Start(0, 2, .5)}}};
  const Replayed replayed = Replay(workload, script).value();
  EXPECT_EQ(replayed.outcomes[0].end, At(20));
  EXPECT_EQ(replayed.outcomes[0].gpu_seconds, 40);
}

TEST(Replay, JobsThatNeverStartAreUnfinished) {
  const Workload workload = Jobs({{0, 10, 1}, {1, 1, 64}});
  Script script;
  script.says[0] = {{{}, {Start(0, 1)}}};
  const Replayed replayed = Replay(workload, script).value();
  EXPECT_EQ(replayed.outcomes.size(), 1u);
  EXPECT_EQ(replayed.unfinished, std::vector<JobIndex>{1});
}

TEST(Replay, WakesADeciderOnRequest) {
  class Sleeper : public Decider {
   public:
    void Submit(JobIndex, const TraceJob&, Time) override {}
    void Ended(JobIndex, Time) override { wakeup_ = kNever; }
    Decision Decide(Time now) override {
      if (now == At(30)) {
        wakeup_ = kNever;
        return {{}, {Start(0, 1)}};
      }
      if (now == At(0)) wakeup_ = At(30);
      return {};
    }
    Time NextWakeup() const override { return wakeup_; }

   private:
    Time wakeup_ = kNever;
  } sleeper;
  const Workload workload = Jobs({{0, 5, 1}});
  const Replayed replayed = Replay(workload, sleeper).value();
  EXPECT_EQ(replayed.outcomes.at(0).first_start, At(30));
  EXPECT_EQ(replayed.load.end(), At(35));
}

TEST(Replay, ADeciderThatOnlyWakesItselfIsStopped) {
  class Dreamer : public Decider {
   public:
    void Submit(JobIndex, const TraceJob&, Time) override {}
    void Ended(JobIndex, Time) override {}
    Decision Decide(Time now) override {
      now_ = now;
      return {};
    }
    Time NextWakeup() const override { return now_ + 1s; }

   private:
    Time now_{};
  } dreamer;
  const Workload workload = Jobs({{0, 5, 1}});
  const Replayed replayed = Replay(workload, dreamer).value();
  EXPECT_EQ(replayed.unfinished.size(), 1u);
  EXPECT_EQ(replayed.load.end(), At(0)) << "its dreams are not part of the run";
}

TEST(Replay, RefusesImpossibleDecisions) {
  const Workload workload = Jobs({{0, 5, 1}});
  Script twice;
  twice.says[0] = {{{}, {Start(0, 1), Start(0, 1)}}};
  EXPECT_FALSE(Replay(workload, twice));
  Script stops;
  stops.says[0] = {{{{0, true}}, {}}};
  EXPECT_FALSE(Replay(workload, stops));
  Workload steps = workload;
  steps.knows_runtimes = false;
  Script quiet;
  EXPECT_FALSE(Replay(steps, quiet));
}

TEST(LoadSeries, KeepsMeansWhenItRunsOutOfBins) {
  LoadSeries series(4);
  series.Set(At(0), {.allocated_gpus = 8, .waiting_jobs = 1});
  series.Set(At(1), {.allocated_gpus = 4});
  series.Set(At(6.5), {.allocated_gpus = 2});
  series.Finish(At(7));
  // Seven seconds in at most four bins: two seconds each.
  const auto points = series.Points();
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[0].width, 2s);
  EXPECT_DOUBLE_EQ(points[0].mean.allocated_gpus, 6);
  EXPECT_DOUBLE_EQ(points[1].mean.allocated_gpus, 4);
  EXPECT_EQ(points[3].width, 1s);
  EXPECT_DOUBLE_EQ(points[3].mean.allocated_gpus, 3);
  EXPECT_DOUBLE_EQ(series.integral().allocated_gpus, 8 + 5.5 * 4 + .5 * 2);
  EXPECT_DOUBLE_EQ(series.allocated_while_waiting(), 8);
  EXPECT_DOUBLE_EQ(series.seconds_waiting(), 1);
}

TEST(LoadSeries, ALongSilenceIsOneStep) {
  LoadSeries series(4);
  series.Set(At(5), {.allocated_gpus = 1});
  series.Finish(At(5 + 3e8));
  EXPECT_DOUBLE_EQ(series.integral().allocated_gpus, 3e8);
  EXPECT_LE(series.Points().size(), 4u);
}

}  // namespace replay_test
}  // namespace divvy::simulate
