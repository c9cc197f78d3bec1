#include "control/controller/controller.h"

#include <gtest/gtest.h>

#include "control/controller/controller_test_world.h"
#include "engine/core/state/state.h"

namespace divvy {
namespace controller_speeds_test {

using namespace std::chrono_literals;

NodeCapacity Mixed(const std::vector<std::string>& models) {
  NodeCapacity capacity;
  for (const std::string& model : models) {
    GpuFacts facts;
    facts.index = static_cast<GpuIndex>(capacity.gpus.size());
    facts.model = model;
    capacity.gpus.push_back(facts);
  }
  capacity.cpus = 8;
  capacity.memory = Bytes(std::int64_t{64} << 30);
  return capacity;
}

/// GPUs 0 and 1 are A100s, 2 and 3 H100s.
class MixedWorld : public World {
 public:
  explicit MixedWorld(const Policy& policy = Policy()) : World(4, policy) {
    controller_.SetCapacity(Mixed({"A100", "A100", "H100", "H100"}));
  }

  JobId Train(int gpus, const std::string& type = "", Duration limit = Duration(0)) {
    JobSpec spec;
    spec.command = {"python", "train.py", "--seed", std::to_string(++seed_)};
    spec.name = "train";
    spec.request.gpus = gpus;
    spec.request.gpu_type = type;
    spec.time_limit = limit;
    const auto result = controller_.Submit(std::move(spec), 0, ada_, now_, NoHistory());
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    Turn();
    return result ? result->id : JobId();
  }
  GpuSet GpusOf(JobId job) const {
    const JobRecord* record = controller_.Find(job);
    return record == nullptr ? GpuSet() : record->gpus;
  }
  void End(JobId job, int code = 0) {
    Exit(job, code);
    ended_.push_back(Turn().finished.front());
  }
  /// One run of `gpus` GPUs on a model, which succeeds after `ran`.
  void Ran(const std::string& model, Duration ran, int gpus = 1) {
    const JobId job = Train(gpus, model);
    now_ += ran;
    End(job);
  }
  void LearnBoth(int gpus = 1) {
    for (int i = 0; i < 3; ++i) {
      Ran("h100", 55min, gpus);
      Ran("a100", 100min, gpus);
    }
  }

  std::vector<JobRecord> ended_;

 private:
  int seed_ = 0;
};

TEST(LearnedSpeeds, SendTheNextJobOfTheClassToTheFasterFreeGpu) {
  MixedWorld world;
  const JobId unknown = world.Train(1);
  EXPECT_EQ(world.GpusOf(unknown), GpuSet::Of({0})) << "the lowest";
  EXPECT_EQ(world.controller_.SpeedsOf(*world.controller_.Find(unknown)), "");
  world.Exit(unknown, 1);
  world.Turn();
  world.LearnBoth();
  const JobId one = world.Train(1);
  EXPECT_EQ(world.GpusOf(one), GpuSet::Of({2}));
  EXPECT_EQ(world.controller_.SpeedsOf(*world.controller_.Find(one)),
            "A100 at 0.55 of the speed of H100, learned from 6 runs");
  EXPECT_EQ(world.GpusOf(world.Train(1)), GpuSet::Of({3}));
  EXPECT_EQ(world.GpusOf(world.Train(1)), GpuSet::Of({0})) << "it does not wait for the faster one";
}

TEST(LearnedSpeeds, DelayNoJobThatCouldStartOnMixedModels) {
  MixedWorld world;
  world.LearnBoth(2);
  EXPECT_EQ(world.GpusOf(world.Train(2)), GpuSet::Of({2, 3}));
  MixedWorld other;
  // Kinds with three GPUs were learned on servers that had three of each model.
  std::vector<JobRecord> history = world.ended_;
  for (JobRecord& record : history) record.request.gpus = 3, record.gpus = GpuSet::FirstN(3);
  other.controller_.LearnRunTimes(history);
  const JobId three = other.Train(3);
  EXPECT_NE(other.controller_.SpeedsOf(*other.controller_.Find(three)), "");
  EXPECT_EQ(other.GpusOf(three).size(), 3);
}

TEST(LearnedSpeeds, AreOverriddenBySpeedsInTheRequest) {
  MixedWorld world;
  world.LearnBoth();
  const JobId job = world.Train(1, "a100*1.0|h100*0.25");
  EXPECT_EQ(world.GpusOf(job), GpuSet::Of({0}));
  EXPECT_EQ(world.controller_.SpeedsOf(*world.controller_.Find(job)),
            "H100 at 0.25 of the speed of A100, as --gpu-type says");
}

TEST(LearnedSpeeds, ApplyToATypeWithSeveralModelsOnly) {
  MixedWorld world;
  world.LearnBoth();
  EXPECT_EQ(world.GpusOf(world.Train(1, "a100|h100")), GpuSet::Of({2}));
  EXPECT_EQ(world.GpusOf(world.Train(1, "a100")), GpuSet::Of({0}));
}

TEST(LearnedSpeeds, ReachJobsThatAlreadyWait) {
  MixedWorld world;
  for (int i = 0; i < 3; ++i) world.Ran("h100", 55min);
  for (int i = 0; i < 2; ++i) world.Ran("a100", 100min);
  const JobId last = world.Train(1, "a100");
  JobSpec spec;
  spec.command = {"python", "train.py", "--seed", "7"};
  spec.name = "train";
  spec.request.gpus = 1;
  spec.is_held = true;
  const JobId held = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory())->id;
  world.Turn();
  EXPECT_TRUE(world.controller_.scheduler().waiting(held)->speeds.empty());
  world.now_ += 100min;
  world.End(last);
  world.now_ += 2min;
  world.Turn();
  EXPECT_EQ(world.controller_.scheduler().waiting(held)->speeds,
            (std::vector<ModelSpeed>{{"H100", 1000}, {"A100", 550}}));
}

TEST(LearnedSpeeds, AreRebuiltFromTheHistoryAfterARestart) {
  MixedWorld world;
  world.LearnBoth();
  MixedWorld again;
  again.controller_.LearnRunTimes(world.ended_);
  EXPECT_EQ(again.GpusOf(again.Train(1)), GpuSet::Of({2}));
}

TEST(LearnedSpeeds, MatterOnlyWhereGpusDiffer) {
  MixedWorld world;
  world.LearnBoth();
  World same(4);
  same.controller_.SetCapacity(Mixed({"H100", "H100", "H100", "H100"}));
  same.controller_.LearnRunTimes(world.ended_);
  EXPECT_TRUE(same.controller_.speeds().All().empty());
}

TEST(LearnedSpeeds, ComeFromReportedProgressOfStoppedRuns) {
  MixedWorld world;
  for (int i = 0; i < 3; ++i) {
    for (const auto& [model, part] : {std::pair("h100", 0.4), std::pair("a100", 0.1)}) {
      const JobId job = world.Train(1, model);
      world.controller_.OnStarted(job, 1, world.now_);
      ASSERT_TRUE(world.controller_.ReportProgress(job, 0, {0.0, 0, 0}, world.ada_, world.now_));
      world.now_ += 100s;
      ASSERT_TRUE(world.controller_.ReportProgress(job, 0, {part, 0, 0}, world.ada_, world.now_));
      world.End(job, 1);
    }
  }
  const JobId next = world.Train(1);
  EXPECT_EQ(world.GpusOf(next), GpuSet::Of({2}));
  EXPECT_EQ(world.controller_.SpeedsOf(*world.controller_.Find(next)),
            "A100 at 0.25 of the speed of H100, learned from 6 runs by their progress");
}

TEST(LearnedSpeeds, IgnoreRunTimesOfPausedRuns) {
  MixedWorld world;
  for (int i = 0; i < 3; ++i) world.Ran("h100", 55min);
  const auto start_and_pause = [&] {
    const JobId job = world.Train(1, "a100");
    world.controller_.OnStarted(job, 1, world.now_);
    EXPECT_TRUE(world.controller_.Pause(job, world.ada_, world.now_));
    world.now_ += 10h;
    return job;
  };
  for (int i = 0; i < 3; ++i) {
    const JobId job = start_and_pause();
    ASSERT_TRUE(world.controller_.Resume(job, world.ada_, world.now_));
    world.now_ += 100min;
    world.End(job);
    EXPECT_EQ(world.ended_.back().state, JobState::kSucceeded);
  }
  const JobId next = world.Train(1, "a100|h100");
  EXPECT_EQ(world.controller_.SpeedsOf(*world.controller_.Find(next)), "");
  world.Exit(next, 1);
  world.Turn();
  // A run after the paused one counts.
  for (int i = 0; i < 3; ++i) {
    const JobId job = start_and_pause();
    ASSERT_TRUE(world.controller_.Requeue(job, RequeueAs::kQueued, world.ada_, world.now_));
    world.Exit(job, 1);
    world.Turn();
    ASSERT_EQ(world.StateOf(job), JobState::kStarting);
    world.now_ += 100min;
    world.End(job);
  }
  const JobId last = world.Train(1);
  EXPECT_EQ(world.controller_.SpeedsOf(*world.controller_.Find(last)),
            "A100 at 0.55 of the speed of H100, learned from 6 runs");
}

TEST(LearnedSpeeds, IgnoreTheRunTimeOfARunThatWasPausedDuringARestart) {
  MixedWorld world;
  for (int i = 0; i < 3; ++i) {
    world.Ran("h100", 55min);
    if (i < 2) world.Ran("a100", 100min);
  }
  const JobId job = world.Train(1, "a100");
  world.controller_.OnStarted(job, 1, world.now_);
  ASSERT_TRUE(world.controller_.Pause(job, world.ada_, world.now_));
  JobRecord stored = *world.controller_.Find(job);
  stored.progress.was_paused = false;  // As loaded from disk.
  MixedWorld again;
  again.now_ = world.now_ + 10h;
  again.controller_.LearnRunTimes(world.ended_);
  again.controller_.Load(World::Stored({stored}), {}, job.value() + 1, 1, World::NoHistory());
  again.Turn();
  ASSERT_TRUE(again.controller_.Resume(job, again.ada_, again.now_));
  again.now_ += 100min;
  again.End(job);
  EXPECT_EQ(again.ended_.back().state, JobState::kSucceeded);
  EXPECT_EQ(again.controller_.SpeedsOf(*again.controller_.Find(again.Train(1))), "");
  again.Ran("a100", 100min);
  EXPECT_EQ(again.controller_.SpeedsOf(*again.controller_.Find(again.Train(1))),
            "A100 at 0.55 of the speed of H100, learned from 6 runs");
}

// Under `fair`, a team's usage is weighted by speed; quotas and limits count whole GPUs.
TEST(SpeedsUnderFair, SlowGpusCountLess) {
  Policy policy;
  policy.order = QueuePolicy::kFair;
  MixedWorld world(policy);
  TeamChange team;
  team.name = "vision";
  team.is_new = true;
  team.add_users = {"ada"};
  ASSERT_TRUE(world.controller_.SetTeam(team, Caller{world.ada_.user, true, {}}, world.now_));
  world.Turn();
  const auto& teams = world.controller_.scheduler().teams();
  const core::TeamIndex vision = world.controller_.scheduler().TeamOf("vision");
  const JobId fast = world.Train(2, "h100*1.0|a100*0.55");
  EXPECT_EQ(teams.worth(vision), 2 * placement::kGpuParts);
  const JobId slow = world.Train(2, "h100*1.0|a100*0.55");
  EXPECT_EQ(world.GpusOf(slow), GpuSet::Of({0, 1}));
  EXPECT_EQ(teams.running(vision), 4 * placement::kGpuParts);
  EXPECT_EQ(teams.worth(vision), 31'000);
  const JobId waits = world.Train(1);
  const core::Explanation why = Explain(world.controller_.scheduler(), waits, world.now_);
  EXPECT_TRUE(why.key.starts_with("team vision runs 4 GPUs (worth 3.1 GPUs by speed) of a share of ")) << why.key;
  // The same holds after a restart.
  MixedWorld again(policy);
  ASSERT_TRUE(again.controller_.SetTeam(team, Caller{world.ada_.user, true, {}}, world.now_));
  again.now_ = world.now_;
  again.controller_.Load(world.controller_.live(), {}, waits.value() + 1, 3, World::NoHistory());
  again.Turn();
  EXPECT_EQ(again.controller_.scheduler().teams().worth(again.controller_.scheduler().TeamOf("vision")), 31'000);
  world.Exit(slow, 0);
  world.Exit(fast, 0);
  EXPECT_EQ(teams.worth(vision), 0) << "the third has not started yet";
}

}  // namespace controller_speeds_test
}  // namespace divvy
