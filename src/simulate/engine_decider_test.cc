// The production scheduler in a replay: what it must know, and what it must not know.
#include "simulate/engine_decider.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace divvy::simulate {
namespace engine_decider_test {

Time At(double seconds) { return TimeFromSeconds(seconds); }
Duration Seconds(double seconds) { return At(seconds).time_since_epoch(); }

TraceJob Job(int gpus, double submit, double runtime) {
  TraceJob job;
  job.gpus = gpus;
  job.submit = At(submit);
  job.runtime = Seconds(runtime);
  return job;
}

Workload Of(std::vector<TraceJob> jobs) {
  Workload workload;
  for (TraceJob& job : jobs) {
    if (job.id.empty()) job.id = std::to_string(workload.jobs.size() + 1);
    workload.jobs.push_back(std::move(job));
  }
  Arrange(workload);
  return workload;
}

EngineRule Rule(QueuePolicy order, Predicting predicting = Predicting::kNone) {
  EngineRule rule;
  rule.rules.order = order;
  rule.predicting = predicting;
  return rule;
}

/// The first start of each job in seconds. -1: never.
std::vector<double> Starts(const Workload& workload, const std::string& cluster, const EngineRule& rule) {
  auto decider = MakeEngineDecider(ParseCluster(cluster).value(), rule).value();
  const Replayed replayed = Replay(workload, *decider).value();
  std::vector<double> starts(workload.jobs.size(), -1);
  for (const Outcome& outcome : replayed.outcomes) starts[outcome.job] = ToSeconds(outcome.first_start);
  return starts;
}

using Times = std::vector<double>;

TEST(EngineDecider, SmallFirstStartsTheSmallerOfTwoWaitingJobs) {
  const Workload workload = Of({Job(8, 0, 100), Job(8, 1, 10), Job(1, 2, 10)});
  EXPECT_EQ(Starts(workload, "1x8", Rule(QueuePolicy::kSmallFirst)), (Times{0, 110, 100}));
  EXPECT_EQ(Starts(workload, "1x8", Rule(QueuePolicy::kFifo)), (Times{0, 100, 110}));
}

TEST(EngineDecider, AJobKnownToEndInTimeOvertakesTheReservation) {
  // The second job waits for all GPUs until 100. The third ends before that, the fourth does not.
  const Workload workload = Of({Job(6, 0, 100), Job(8, 1, 10), Job(2, 2, 50), Job(2, 60, 50)});
  EXPECT_EQ(Starts(workload, "1x8", Rule(QueuePolicy::kFifo, Predicting::kTrue)), (Times{0, 100, 2, 110}));
  EngineRule strict = Rule(QueuePolicy::kFifo, Predicting::kTrue);
  strict.rules.backfill = core::Backfill::kNone;
  EXPECT_EQ(Starts(workload, "1x8", strict), (Times{0, 100, 110, 110}));
}

TEST(EngineDecider, TimeLimitsOfTheTraceCountUnlessTheyAreDropped) {
  Workload workload = Of({Job(6, 0, 100), Job(8, 1, 10), Job(2, 2, 50)});
  for (TraceJob& job : workload.jobs) job.limit = job.runtime;
  EngineRule rule = Rule(QueuePolicy::kFifo);
  rule.rules.backfill = core::Backfill::kReserved;
  EXPECT_EQ(Starts(workload, "1x8", rule), (Times{0, 100, 2}));
  workload.jobs[2].limit = Seconds(200);
  EXPECT_EQ(Starts(workload, "1x8", rule), (Times{0, 100, 110}));
}

TEST(EngineDecider, HistoryKnowsOnlyEndedJobs) {
  // Ann's jobs take 10 s and Bob's 500 s. This is known after the first three of each.
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(Job(1, 0, 500)), jobs.back().user = "bob";
    jobs.push_back(Job(1, 0, 10)), jobs.back().user = "ann";
  }
  jobs.push_back(Job(8, 1000, 10));  // The next two jobs wait for this one.
  jobs.push_back(Job(8, 1001, 500)), jobs.back().user = "bob";
  jobs.push_back(Job(8, 1002, 10)), jobs.back().user = "ann";
  const Workload workload = Of(jobs);
  EngineRule rule = Rule(QueuePolicy::kShortest, Predicting::kHistory);
  EXPECT_EQ(Starts(workload, "1x8", rule)[7], 1020) << "the one that is predicted to be shorter went first";
  EXPECT_EQ(Starts(workload, "1x8", rule)[8], 1010);
  rule.predicting = Predicting::kNone;
  EXPECT_EQ(Starts(workload, "1x8", rule)[7], 1010);

  auto decider =
      MakeEngineDecider(ParseCluster("1x8").value(), Rule(QueuePolicy::kShortest, Predicting::kHistory)).value();
  ASSERT_TRUE(Replay(workload, *decider));
  EXPECT_EQ(decider->accuracy().predicted + decider->accuracy().unpredicted, 9U);
}

TEST(EngineDecider, ASecondJobOfAUserIsPredictedOnceTheFirstHasEnded) {
  // At 1 and 2 nothing has ended, so both count alike. The earlier one starts first, although it is longer.
  std::vector<TraceJob> jobs = {Job(8, 0, 50), Job(8, 1, 500), Job(8, 2, 10)};
  jobs[1].user = "bob", jobs[2].user = "ann";
  EXPECT_EQ(Starts(Of(jobs), "1x8", Rule(QueuePolicy::kShortest, Predicting::kHistory)), (Times{0, 50, 550}));
  EXPECT_EQ(Starts(Of(jobs), "1x8", Rule(QueuePolicy::kShortest, Predicting::kTrue)), (Times{0, 60, 50}));
}

TEST(EngineDecider, AJobLargerThanANodeUsesFullNodesAndOneMore) {
  class Spy : public Decider {
   public:
    explicit Spy(Decider& inner) : inner_(inner) {}
    void Submit(JobIndex job, const TraceJob& trace_job, Time now) override { inner_.Submit(job, trace_job, now); }
    void Ended(JobIndex job, Time now) override { inner_.Ended(job, now); }
    Decision Decide(Time now) override {
      Decision decision = inner_.Decide(now);
      for (const Started& start : decision.starts) {
        for (const NodeGpus& part : start.gpus) gpus.push_back(part.gpus);
      }
      return decision;
    }
    Time NextWakeup() const override { return inner_.NextWakeup(); }
    std::vector<int> gpus;

   private:
    Decider& inner_;
  };
  auto decider = MakeEngineDecider(ParseCluster("3x8").value(), Rule(QueuePolicy::kFifo)).value();
  Spy spy(*decider);
  ASSERT_TRUE(Replay(Of({Job(20, 0, 10)}), spy));
  EXPECT_EQ(spy.gpus, (std::vector<int>{8, 8, 4}));
}

TEST(EngineDecider, NodesOfATeamRunThatTeamOnly) {
  TraceCluster cluster = ParseCluster("1x8,1x8").value();
  cluster.groups[0].team = "vision";
  std::vector<TraceJob> jobs = {Job(8, 0, 100), Job(8, 0, 100), Job(8, 0, 100)};
  jobs[0].team = jobs[1].team = "vision";
  jobs[2].team = "speech";
  auto decider = MakeEngineDecider(cluster, Rule(QueuePolicy::kFifo)).value();
  const Replayed replayed = Replay(Of(jobs), *decider).value();
  ASSERT_EQ(replayed.outcomes.size(), 3U);
  EXPECT_EQ(replayed.outcomes[1].first_start, At(100)) << "the other team's node stays empty";
  EXPECT_EQ(replayed.outcomes[2].first_start, At(0));
}

TEST(EngineDecider, ModelsAreSelectedByName) {
  std::vector<TraceJob> jobs = {Job(8, 0, 100), Job(8, 0, 100), Job(8, 0, 100)};
  jobs[0].gpu_type = jobs[1].gpu_type = "v100";
  jobs[2].gpu_type = "p100|v100";
  EXPECT_EQ(Starts(Of(jobs), "1x8:v100,1x8:p100", Rule(QueuePolicy::kFifo)), (Times{0, 100, 0}));
  jobs[0].gpu_type = "h100";
  EXPECT_EQ(Starts(Of(jobs), "1x8:v100,1x8:p100", Rule(QueuePolicy::kFifo)), (Times{-1, 0, 0}));
}

TEST(EngineDecider, GpuFractionsArePacked) {
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(Job(1, 0, 10)), jobs.back().share = GpuShare(GpuShare::kWhole / 2);
  EXPECT_EQ(Starts(Of(jobs), "1x1", Rule(QueuePolicy::kFifo)), (Times{0, 0, 10}));
}

TEST(EngineDecider, TeamsOfEqualWeightAreServedAlternately) {
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Job(1, i == 0 ? 0 : 1, 100)), jobs.back().team = "many";
  jobs.push_back(Job(1, 2, 100)), jobs.back().team = "few";
  EngineRule rule = Rule(QueuePolicy::kFair);
  rule.uses_teams = true;
  const Times fair = Starts(Of(jobs), "1x2", rule);
  EXPECT_EQ(fair[4], 100) << "before the third and fourth of the other team";
}

TEST(EngineDecider, TheSameTraceGivesTheSameRun) {
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 300; ++i) {
    jobs.push_back(Job(1 + i * 7 % 11, i * 3, 20 + i * 37 % 400));
    jobs.back().user = "u" + std::to_string(i % 5);
  }
  for (const QueuePolicy order : {QueuePolicy::kSmallFirst, QueuePolicy::kShortest, QueuePolicy::kFair}) {
    const EngineRule rule = Rule(order, Predicting::kHistory);
    const Times first = Starts(Of(jobs), "2x8", rule);
    EXPECT_EQ(std::ranges::count(first, -1.0), 0);
    EXPECT_EQ(first, Starts(Of(jobs), "2x8", rule));
  }
}

TEST(EngineDecider, RefusesClustersBeyondTheSchedulersLimits) {
  EXPECT_NE(MakeEngineDecider(ParseCluster("1x65").value(), {}).error().message.find("the limit is 64"),
            std::string::npos);
  TraceCluster cluster;
  for (int i = 0; i < 65; ++i) {
    cluster.groups.push_back(ParseCluster("1x8").value().groups.front());
    cluster.groups.back().model = "m" + std::to_string(i);
  }
  EXPECT_NE(MakeEngineDecider(cluster, {}).error().message.find("more than 64 classes"), std::string::npos);
}

}  // namespace engine_decider_test
}  // namespace divvy::simulate
