// The worth of GPUs to teams whose jobs run at different speeds, and that unknown speeds change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/core/state/cluster.h"
#include "engine/core/state/state.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace speeds_test {

using std::chrono::hours;

constexpr std::int64_t kGpu = placement::kGpuParts;

Teams TwoTeams(std::int64_t quota = 0) {
  Teams teams(hours(1000));
  TeamSpec a, b;
  a.name = "a";
  b.name = "b";
  a.quota_parts = b.quota_parts = quota;
  teams.Reset({a, b});
  teams.SetCapacity(8 * kGpu);
  teams.AddWaiting(1, 8 * kGpu);
  teams.AddWaiting(2, 8 * kGpu);
  return teams;
}

TEST(GpuUse, IsWeightedByTheSpeedOfTheAlternative) {
  ResourceRequest request = GpuRequest(4);
  request.groups.front().alternatives.push_back(request.groups.front().alternatives.front());
  const TaskPlacement fast{0, AtGpus(0b1111), 0, 0}, slow{0, AtGpus(0b1111), 0, 1};
  EXPECT_EQ(UseOf(request, slow).worth, 4 * kGpu) << "no speeds";
  request.groups.front().speeds = {1000, 550};
  EXPECT_EQ(UseOf(request, fast).worth, 4 * kGpu);
  EXPECT_EQ(UseOf(request, slow).parts, 4 * kGpu);
  EXPECT_EQ(UseOf(request, slow).worth, 22'000);
}

TEST(TeamsAtSpeeds, AreComparedByTheSpeedOfTheirGpus) {
  Teams teams = TwoTeams();
  teams.AddRunning(1, {4 * kGpu, 2 * kGpu}, false, At(0));
  teams.AddRunning(2, {3 * kGpu, 3 * kGpu}, false, At(0));
  EXPECT_LT(teams.Satisfaction(1), teams.Satisfaction(2));
  EXPECT_EQ(teams.running(1), 4 * kGpu);
  EXPECT_EQ(teams.worth(kRootTeam), 5 * kGpu);
  EXPECT_LT(teams.usage(1, At(100)), teams.usage(2, At(100)));
}

TEST(TeamsAtSpeeds, CountQuotasAndLimitsInWholeGpus) {
  Teams teams = TwoTeams(4 * kGpu);
  teams.AddRunning(1, {4 * kGpu, kGpu}, true, At(0));
  teams.AddRunning(2, {3 * kGpu, 3 * kGpu}, true, At(0));
  EXPECT_LT(teams.Satisfaction(2), teams.Satisfaction(1)) << "only the second is below its quota";
  EXPECT_EQ(teams.OverFirmQuota(1, kGpu), TeamIndex{1});
  EXPECT_EQ(teams.OverFirmQuota(2, kGpu), kRootTeam);
}

/// A seeded history of two teams on nodes of two models under `fair`. Only the known speeds vary.
class History {
 public:
  History(std::uint64_t seed, std::vector<std::int16_t> speeds) : draws_(seed), speeds_(std::move(speeds)) {
    Rules rules;
    rules.order = QueuePolicy::kFair;
    cluster_ = Cluster(rules);
    for (int node = 0; node < 3; ++node) {
      NodeFacts facts = PlainNode(node, 4);
      facts.node_class = facts.gpu_model = node % 2;
      cluster_.AddNode(facts);
    }
    TeamSpec a, b;
    a.name = "a";
    b.name = "b";
    a.quota_parts = 2 * kGpu;
    b.quota_parts = 0;
    a.limit_parts = 7 * kGpu;
    b.weight = 2;
    cluster_.teams().Reset({a, b});
    cluster_.RecountTeams(At(0));
  }

  /// One event and a decision.
  void Step(int step) {
    const Time now = At(step * 60);
    if (draws_.Next() % 3 != 0) Submit(now);
    if (!running_.empty() && draws_.Next() % 2 == 0) {
      const std::size_t which = draws_.Next() % running_.size();
      cluster_.Finish(running_[which], now);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
    }
    for (const Start& start : cluster_.Decide(now).starts) {
      running_.push_back(start.job);
      starts.emplace_back(start.job, start.placements);
    }
    ASSERT_EQ(cluster_.CheckInvariants(), "");
  }
  void FinishAll(int step) {
    for (const JobId job : running_) cluster_.Finish(job, At(step * 60));
    running_.clear();
  }

  const Teams& teams() const { return cluster_.teams(); }
  std::vector<std::pair<JobId, std::vector<TaskPlacement>>> starts;

 private:
  void Submit(Time now) {
    ResourceRequest request = GpuRequest(1 + static_cast<int>(draws_.Next() % 3));
    TaskGroup& group = request.groups.front();
    const bool prefers_second = draws_.Next() % 2 == 0;
    group.alternatives.push_back(group.alternatives.front());
    group.alternatives[0].models = prefers_second ? 2 : 1;
    group.alternatives[1].models = prefers_second ? 1 : 2;
    group.speeds = speeds_;
    Job job = MakeJob(cluster_, ++last_, request, now, draws_.Next() % 2 == 0 ? Duration(0) : Duration(hours(1)));
    job.team = static_cast<TeamIndex>(1 + draws_.Next() % 2);
    job.preemptible = Preemptible::kRequeue;
    cluster_.Put(job, now);
  }

  Draws draws_;
  std::vector<std::int16_t> speeds_;
  Cluster cluster_{Rules()};
  std::uint64_t last_ = 0;
  std::vector<JobId> running_;
};

TEST(FairAtSpeeds, NothingChangesIfAllSpeedsAreOneOrUnknown) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    History unknown(seed, {}), equal(seed, {1000, 1000});
    for (int step = 0; step < 120; ++step) {
      unknown.Step(step);
      equal.Step(step);
      if (HasFatalFailure()) return;
      for (TeamIndex team = 0; team < unknown.teams().size(); ++team) {
        ASSERT_EQ(unknown.teams().worth(team), unknown.teams().running(team)) << seed;
        ASSERT_EQ(unknown.teams().Satisfaction(team), equal.teams().Satisfaction(team)) << seed;
      }
    }
    ASSERT_EQ(unknown.starts, equal.starts) << seed;
  }
}

TEST(FairAtSpeeds, WeightedUseNeverExceedsPlainUseAndIsReturnedExactly) {
  bool has_changed = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    History plain(seed, {}), slow(seed, {1000, 333});
    for (int step = 0; step < 120; ++step) {
      plain.Step(step);
      slow.Step(step);
      if (HasFatalFailure()) return;
      for (TeamIndex team = 0; team < slow.teams().size(); ++team) {
        ASSERT_LE(slow.teams().worth(team), slow.teams().running(team)) << seed;
        ASSERT_GE(slow.teams().worth(team), slow.teams().running(team) * 333 / 1000) << seed;
      }
      ASSERT_LE(slow.teams().running(1), 7 * kGpu) << "its limit, in whole GPUs";
    }
    has_changed = has_changed || plain.starts != slow.starts;
    slow.FinishAll(120);
    for (TeamIndex team = 0; team < slow.teams().size(); ++team) ASSERT_EQ(slow.teams().worth(team), 0) << seed;
  }
  EXPECT_TRUE(has_changed) << "speeds decide nothing";
}

}  // namespace speeds_test
}  // namespace divvy::core
