// Running elastic jobs: the GPUs that they are given and asked for, their answers, and the state after a restart.
#include <algorithm>

#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_elastic_test {

using namespace std::chrono_literals;

JobId SubmitElastic(World& world, int least, int most) {
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "elastic";
  spec.request.gpus = least;
  spec.request.max_gpus = most;
  const auto result = world.controller_.Submit(std::move(spec), 0, world.ada_, world.now_, World::NoHistory());
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->id : JobId();
}

std::vector<ResizeCommand> Resizes(const Effects& effects) {
  std::vector<ResizeCommand> commands;
  for (const NodeCommand& command : effects.commands) {
    if (const auto* resize = std::get_if<ResizeCommand>(&command)) commands.push_back(*resize);
  }
  return commands;
}

Controller::Checkpointed Checkpoint(World& world, JobId job) {
  const auto done = world.controller_.Checkpoint(job, 0, world.ada_, world.now_);
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  return done ? *done : Controller::Checkpointed();
}

// The job runs, and has reported that it can be resized.
JobId StartTakingPart(World& world, int least, int most) {
  const JobId job = SubmitElastic(world, least, most);
  world.Turn();
  Checkpoint(world, job);
  world.Turn();
  return job;
}

TEST(Elastic, AJobThatNeverCallsCheckpointKeepsItsGpus) {
  World world(4);
  const JobId other = world.Submit(2);
  const JobId job = SubmitElastic(world, 1, 4);
  world.Turn();
  EXPECT_EQ(world.controller_.Find(job)->gpus.size(), 2);
  world.Exit(other, 0);
  EXPECT_TRUE(Resizes(world.Turn()).empty());
  world.Submit(3);
  EXPECT_TRUE(Resizes(world.Turn()).empty());
  EXPECT_EQ(world.controller_.Find(job)->gpus.size(), 2);
}

TEST(Elastic, IdleGpusAreAddedAtOnceAndTheJobIsNotified) {
  World world(4);
  const JobId other = world.Submit(2);
  const JobId job = SubmitElastic(world, 1, 4);
  world.Turn();
  EXPECT_FALSE(Checkpoint(world, job).has_changed);
  world.Turn();
  world.Exit(other, 0);
  const Effects effects = world.Turn();
  ASSERT_EQ(Resizes(effects).size(), 1u);
  EXPECT_EQ(Resizes(effects)[0].gpus, GpuSet::FirstN(4));
  EXPECT_TRUE(Resizes(effects)[0].is_signalled);
  EXPECT_EQ(world.controller_.Find(job)->gpus, GpuSet::FirstN(4));
  const auto answer = Checkpoint(world, job);
  EXPECT_TRUE(answer.has_changed);
  EXPECT_EQ(answer.gpus, GpuSet::FirstN(4));
  EXPECT_FALSE(Checkpoint(world, job).has_changed);
  EXPECT_TRUE(Resizes(world.Turn()).empty());
}

TEST(Elastic, RequestedGpusAreFreeOnceTheJobConfirms) {
  World world(4);
  const JobId job = StartTakingPart(world, 1, 4);
  const JobId waiting = world.Submit(2);
  const Effects asked = world.Turn();
  ASSERT_EQ(Resizes(asked).size(), 1u);
  EXPECT_EQ(Resizes(asked)[0].gpus.size(), 2);
  EXPECT_EQ(world.controller_.Find(job)->gpus.size(), 4) << "they are its own until it answers";
  EXPECT_EQ(world.StateOf(waiting), JobState::kQueued);
  world.now_ += 3min;
  EXPECT_TRUE(Resizes(world.Turn()).empty());
  const core::Explanation why = Explain(world.controller_.scheduler(), waiting, world.now_);
  const bool says_so = std::ranges::any_of(why.blockers, [](const core::Blocker& blocker) {
    return blocker.text == "job 1 was asked 3 min ago to give back 2 GPUs";
  });
  EXPECT_TRUE(says_so);

  const auto answer = Checkpoint(world, job);
  EXPECT_TRUE(answer.has_changed);
  EXPECT_EQ(answer.gpus, Resizes(asked)[0].gpus);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{waiting});
  // When it ends, the idle GPU returns to the elastic job.
  world.Exit(waiting, 0);
  EXPECT_EQ(Resizes(world.Turn()).size(), 1u);
  EXPECT_EQ(world.controller_.Find(job)->gpus.size(), 4);
}

TEST(Elastic, OnlyTheJobItselfConfirmsACheckpoint) {
  World world(2);
  const JobId job = SubmitElastic(world, 1, 2);
  world.Turn();
  Caller eve;
  eve.user = {1001, 1001, "eve"};
  EXPECT_FALSE(world.controller_.Checkpoint(job, 0, eve, world.now_));
  EXPECT_FALSE(world.controller_.Checkpoint(job, 7, world.ada_, world.now_)) << "a run that is over";
  EXPECT_TRUE(world.controller_.Checkpoint(job, 1, world.ada_, world.now_));
}

TEST(Elastic, CheckpointsOfAJobThatIsNotElasticChangeNothing) {
  World world(2);
  const JobId job = world.Submit(1);
  world.Turn();
  EXPECT_FALSE(Checkpoint(world, job).has_changed);
  EXPECT_TRUE(Resizes(world.Turn()).empty());
  EXPECT_FALSE(world.controller_.Find(job)->takes_resizes);
}

TEST(Elastic, ARestartRestoresGpusAndPendingShrinks) {
  World world(4);
  const JobId job = StartTakingPart(world, 1, 4);
  const JobId waiting = world.Submit(2);
  world.Turn();

  World again(4);
  again.now_ = world.now_ + 1min;
  again.controller_.Load(world.controller_.live(), {}, 10, 2, World::NoHistory());
  EXPECT_TRUE(Resizes(again.Turn()).empty()) << "it was asked already";
  EXPECT_EQ(again.controller_.Find(job)->gpus_asked_back, world.controller_.Find(job)->gpus_asked_back);
  EXPECT_TRUE(Checkpoint(again, job).has_changed);
  EXPECT_EQ(World::Launched(again.Turn()), std::vector<JobId>{waiting});
}

TEST(Elastic, ANewRunHasNoPendingShrink) {
  World world(4);
  const JobId job = SubmitElastic(world, 1, 4);
  world.Turn();
  Checkpoint(world, job);
  world.Submit(2);
  world.Turn();
  ASSERT_FALSE(world.controller_.Find(job)->gpus_asked_back.empty());
  ASSERT_TRUE(world.controller_.Requeue(job, RequeueAs::kQueued, world.ada_, world.now_));
  world.Exit(job, 0);
  world.Turn();
  const JobRecord& record = *world.controller_.Find(job);
  EXPECT_EQ(record.gpus.size(), 2);
  EXPECT_TRUE(record.gpus_asked_back.empty());
  EXPECT_FALSE(record.takes_resizes);
}

}  // namespace controller_elastic_test
}  // namespace divvy
