// Gangs that lost a part and continue for their grace (JobSpec::stale_grace).
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "control/controller/controller_machines_test_world.h"
#include "control/controller/start_reason.h"

namespace divvy {
namespace controller_stale_gangs_test {

using namespace std::chrono_literals;

/// A running gang on three nodes with a grace of its own.
struct StaleGangs : Machines {
  explicit StaleGangs(Duration grace, int retries = 0) : Machines(3, 4), job(SubmitGang(3, 4, retries, grace)) {
    Turn();
    StartGang(job);
    Turn();
  }

  void Vanish(const std::string& node, Controller::Vanished how = Controller::Vanished::kUnseen) {
    controller_.OnVanished(job, Of(job).attempt, how, now_, node);
  }
  std::string Why() const { return StateReason(controller_, Of(job)); }

  JobId job;
};

TEST(StaleGangs, ALossStopsNothingUntilTheGraceHasRunOut) {
  StaleGangs world(5min);
  world.Vanish("n2");
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), world.job).empty());
  EXPECT_EQ(world.StateOf(world.job), JobState::kRunning);
  EXPECT_EQ(world.Why(),
            "node n2 lost its part: its processes are gone and their exit status is unknown; its other parts continue "
            "for 5 min after that (--stale-grace)");
  EXPECT_EQ(world.controller_.scheduler().free_count(), 0) << "the gang keeps its GPUs on all nodes";
  world.now_ += 5min - 1ns;
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), world.job).empty());
  EXPECT_EQ(world.controller_.next_wakeup(), world.now_ + 1ns);
  world.now_ += 1ns;
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), world.job), (Names{"n1", "n3"}));
  world.End(world.job, "n1", 143);
  world.End(world.job, "n3", 143);
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, world.job), JobState::kFailed);
  EXPECT_EQ(effects.finished[0].reason,
            "node n2 lost its part: its processes are gone and their exit status is unknown");
  EXPECT_EQ(world.controller_.scheduler().free_count(), 12);
}

TEST(StaleGangs, TheGraceOfTheFirstLossCounts) {
  StaleGangs world(5min);
  world.Vanish("n2");
  world.Turn();
  world.now_ += 4min;
  world.End(world.job, "n3", 1, "the job's step process on this node has ended");
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), world.job).empty());
  world.now_ += 1min;
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), world.job), Names{"n1"});
}

TEST(StaleGangs, ANegativeGraceNeverEndsTheGang) {
  StaleGangs world(-1s);
  world.Vanish("n2", Controller::Vanished::kFenced);
  world.Turn();
  world.now_ += std::chrono::hours(24 * 365);
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), world.job).empty());
  EXPECT_EQ(world.Why(),
            "node n2 lost its part: the node was disconnected and has stopped its jobs; its other parts continue "
            "(--stale-grace)");
  world.End(world.job, "n1", 0);
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), world.job), Names{"n3"});
  world.End(world.job, "n3", 143);
  EXPECT_EQ(World::EndOf(world.Turn(), world.job), JobState::kSucceeded);
}

TEST(StaleGangs, ALostNodeRequeuesTheGangWhenTheGraceHasRunOut) {
  StaleGangs world(1min);
  world.controller_.OnNodeLost("n3", world.now_);
  world.controller_.OnNodeFenced("n3", world.now_);
  world.Turn();
  EXPECT_EQ(world.StateOf(world.job), JobState::kRunning);
  // The node is back and reports that nothing of the job runs there.
  world.controller_.OnNodeBack("n3");
  world.Vanish("n3", Controller::Vanished::kFenced);
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), world.job).empty());
  world.now_ += 1min;
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), world.job), (Names{"n1", "n2"}));
  world.End(world.job, "n1", 143);
  world.End(world.job, "n2", 143);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), world.job), (Names{"n1", "n2", "n3"}));
  EXPECT_EQ(world.Of(world.job).restarts, 1U);
}

TEST(StaleGangs, AProgramThatFailsAfterALossEndsTheGangAtOnceAsALoss) {
  StaleGangs world(1h, 1);
  world.Vanish("n2");
  world.Turn();
  world.End(world.job, "n1", 1);
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), world.job), Names{"n3"});
  world.End(world.job, "n3", 143);
  world.Turn();
  EXPECT_EQ(world.Of(world.job).reason,
            "try 1 of 2 ended: node n2 lost its part: its processes are gone and their exit status is unknown; tries "
            "again after 10 s");
}

TEST(StaleGangs, ALossOfTheFirstNodeLeavesTheOthersToo) {
  StaleGangs world(1min);
  world.Vanish("n1");
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), world.job).empty());
  world.now_ += 1min;
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), world.job), (Names{"n2", "n3"}));
  world.End(world.job, "n2", 143);
  world.End(world.job, "n3", 143);
  EXPECT_EQ(World::EndOf(world.Turn(), world.job), JobState::kLost);
}

TEST(StaleGangs, WhenAllPartsAreLostTheGangIsOver) {
  StaleGangs world(1h);
  for (const char* node : {"n2", "n3", "n1"}) world.Vanish(node);
  EXPECT_EQ(World::EndOf(world.Turn(), world.job), JobState::kFailed);
}

TEST(StaleGangs, AStopAndTheTimeLimitWaitForNoGrace) {
  StaleGangs world(1h);
  world.Vanish("n2");
  ASSERT_TRUE(world.controller_.Cancel(world.job, 0, Duration(-1), "", world.ada_, world.now_));
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), world.job), (Names{"n1", "n3"}));
  world.End(world.job, "n1", 143);
  world.End(world.job, "n3", 143);
  EXPECT_EQ(World::EndOf(world.Turn(), world.job), JobState::kCancelled);

  StaleGangs limited(1h);
  divvy::Exit exit;
  exit.hit_time_limit = true;
  limited.controller_.OnExited(limited.job, 1, exit, limited.now_, limited.now_, "n2");
  EXPECT_EQ(Machines::Told<StopCommand>(limited.Turn(), limited.job), (Names{"n1", "n3"}));
}

TEST(StaleGangs, AFailedPreparationHasNoGrace) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4, 0, 1h);
  world.Turn();
  world.Prepare(job, "n1");
  world.End(job, "n2", 127, "there is no user ada");
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), Names{"n1"});
}

TEST(StaleGangs, ARestartOfTheControllerKeepsTheGrace) {
  StaleGangs world(5min);
  world.Vanish("n2");
  const Effects effects = world.Turn();
  ASSERT_EQ(effects.batch.updates.size(), 1U);
  const JobRecord stored = effects.batch.updates[0];

  Machines next(3, 4);
  next.now_ = world.now_ + 1min;
  next.controller_.Load(World::Stored({stored}), {}, 100, 1, World::NoHistory());
  EXPECT_TRUE(Machines::Told<StopCommand>(next.Turn(), world.job).empty());
  EXPECT_EQ(next.StateOf(world.job), JobState::kRunning);
  EXPECT_LE(next.controller_.next_wakeup(), world.now_ + 5min);
  next.now_ = world.now_ + 5min;
  EXPECT_EQ(Machines::Told<StopCommand>(next.Turn(), world.job), (Names{"n1", "n3"}));
}

}  // namespace controller_stale_gangs_test
}  // namespace divvy
