// Time-sharing in replays of small traces. The rule's own tests are in engine/time_sharing.
#include "simulate/time_sharing_decider.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulate/baseline_policies.h"
#include "simulate/metrics.h"
#include "simulate/traces/random.h"

namespace divvy::simulate {
namespace time_sharing_decider_test {

struct Submitted {
  double submit = 0, runtime = 0;
  int gpus = 1;
  std::string team;
};

Workload Jobs(const std::vector<Submitted>& all) {
  Workload workload;
  for (const Submitted& one : all) {
    TraceJob job;
    job.submit = TimeFromSeconds(one.submit);
    job.runtime = Duration(std::llround(one.runtime * 1e9));
    job.gpus = one.gpus;
    job.team = one.team;
    workload.jobs.push_back(job);
  }
  Arrange(workload);
  return workload;
}

Replayed Shared(const Workload& workload, const TraceCluster& cluster, const TimeSharingRule& rule = {}) {
  const auto decider = MakeTimeSharing(cluster, rule);
  return Replay(workload, *decider).value();
}

Workload RandomJobs(std::uint64_t seed, int count) {
  Random random(seed);
  const auto draw = [&](std::uint64_t below) { return static_cast<double>(random.Next() % below); };
  std::vector<Submitted> all;
  double now = 1000;
  for (int i = 0; i < count; ++i) {
    now += draw(900);
    const double runtime = draw(10) == 0 ? 3600 * (1 + draw(100)) : 10 + draw(1800);
    all.push_back({now, runtime, static_cast<int>(draw(6) == 0 ? 8 + draw(24) : 1 + draw(8)), ""});
  }
  return Jobs(all);
}

TEST(TimeSharingReplay, ABriefJobRunsWhileALongOneIsParked) {
  // 100 hours and an hour's worth of trial later; the long job has had 64 GPU hours after 8 hours.
  const Workload workload = Jobs({{0, 360'000, 8, ""}, {180'000, 600, 8, ""}});
  const Replayed replayed = Shared(workload, TraceCluster{{{.count = 1, .gpus = 8}}});
  EXPECT_EQ(ToSeconds(replayed.outcomes[1].first_start), 180'010) << "after the copy to host memory";
  EXPECT_EQ(ToSeconds(replayed.outcomes[1].end), 180'610);
  EXPECT_EQ(ToSeconds(replayed.outcomes[0].end), 360'000 + 610 + 10);
  EXPECT_EQ(replayed.outcomes[0].preemptions, 1);
  ASSERT_TRUE(replayed.contract);
  EXPECT_EQ(replayed.contract->jobs_settled, 1);
  EXPECT_EQ(replayed.contract->jobs_above, 0);
}

TEST(TimeSharingReplay, WithoutJobsToParkItEqualsPlainSkipping) {
  const TraceCluster cluster{{{.count = 4, .gpus = 8}}};
  TimeSharingRule rule;
  rule.parkable_gpus = 0;
  // The start patience is a rule of its own, so it must not expire here.
  rule.options.start_patience = std::chrono::hours(24 * 365);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Workload workload = RandomJobs(seed, 300);
    const auto plain = MakeHouseRules(cluster, *HouseRuleFromName("fifo-skip")).value();
    EXPECT_EQ(Shared(workload, cluster, rule).outcomes, Replay(workload, *plain).value().outcomes) << "seed " << seed;
  }
}

TEST(TimeSharingReplay, EveryJobEndsAndNoneIsAboveItsContract) {
  const TraceCluster cluster{{{.count = 4, .gpus = 8}}};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    TimeSharingRule rule;
    rule.options.trial = std::chrono::hours(4);
    rule.host_memory = seed % 3 == 0 ? 0.5 : 1;
    const Replayed replayed = Shared(RandomJobs(seed, 300), cluster, rule);
    EXPECT_TRUE(replayed.unfinished.empty()) << "seed " << seed;
    EXPECT_EQ(replayed.contract->jobs_above, 0) << "seed " << seed;
    EXPECT_GT(replayed.contract->jobs_settled, 0) << "seed " << seed;
  }
}

TEST(TimeSharingReplay, TeamsWithNodesOfTheirOwnDoNotDisplaceOthers) {
  TraceCluster cluster;
  cluster.groups = {{.count = 1, .gpus = 8, .team = "a"}, {.count = 1, .gpus = 8}};
  const Workload workload = Jobs({{0, 360'000, 8, "a"}, {1, 360'000, 8, "b"}, {180'000, 600, 8, "b"}});
  const Replayed replayed = Shared(workload, cluster);
  EXPECT_EQ(replayed.outcomes[0].preemptions, 0);
  EXPECT_EQ(replayed.outcomes[1].preemptions, 1);
}

TEST(TimeSharingReplay, AJobThatFitsNowhereIsNeverStarted) {
  const Replayed replayed = Shared(Jobs({{0, 10, 17, ""}}), TraceCluster{{{.count = 2, .gpus = 8}}});
  EXPECT_EQ(replayed.unfinished.size(), 1u);
}

}  // namespace time_sharing_decider_test
}  // namespace divvy::simulate
