// Nodes that are disconnected, drained or lost: the reasons shown for their jobs, and the state after a restart of the
// controller.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "control/controller/controller_machines_test_world.h"
#include "control/controller/start_reason.h"

namespace divvy {
namespace controller_machines_test {

TEST(ControllerNodes, AJobThatRanBeforeARestartIsNotReportedAsFirstInQueue) {
  Machines before(1, 4);
  const JobId job = before.Submit(2);
  before.Turn();
  before.controller_.OnStarted(job, 1, before.now_, "n1");
  Machines after(0);
  after.controller_.OnNodeRow(MachineRow("n1", 4));
  JobRecord kept = before.Of(job);
  kept.state = JobState::kStarting;  // As stored.
  after.controller_.Load(World::Stored({kept}), {}, 100, 1, World::NoHistory());
  EXPECT_EQ(StateReason(after.controller_, after.Of(job)),
            "node n1 has not been heard from since the controller began; the job may run there");
  after.controller_.OnNodeReconciled("n1");
  EXPECT_EQ(StateReason(after.controller_, after.Of(job)), "first in line");
}

TEST(ControllerNodes, AJobOnADrainingNodeShowsTheDeadline) {
  Machines world(1, 4);
  const JobId job = world.Submit(1);
  world.Turn();
  world.controller_.OnStarted(job, 1, world.now_, "n1");
  NodeRow row = MachineRow("n1", 4);
  row.work = NodeWork::kDraining;
  row.reason = "fan";
  world.controller_.OnNodeRow(row);
  EXPECT_EQ(StateReason(world.controller_, world.Of(job)), world.Of(job).reason) << "it may end by itself";
  row.drain_deadline = world.now_ + std::chrono::hours(1);
  world.controller_.OnNodeRow(row);
  EXPECT_EQ(StateReason(world.controller_, world.Of(job)),
            "node n1 is draining: fan; at its deadline this job is stopped (divvy nodes)");
  const JobId next = world.Submit(1);
  world.Turn();
  EXPECT_TRUE(world.controller_.WaitingReason(world.Of(next)).ends_with(": node n1 is draining: fan"));
  world.controller_.OnExited(job, 1, Exit{}, world.now_, world.now_, "n1");
  world.Turn();
  EXPECT_EQ(world.controller_.WaitingReason(world.Of(next)),
            "asks for 1 GPU, but no GPU can be used now: node n1 is drained: fan");
}

TEST(ControllerNodes, AJobThatRanForLongIsStoredAsRunning) {
  Machines before(1, 4);
  const JobId job = before.Submit(1), brief = before.Submit(1);
  before.Turn();
  before.controller_.OnStarted(job, 1, before.now_, "n1");
  before.controller_.OnStarted(brief, 1, before.now_, "n1");
  before.controller_.Decide(before.now_);
  EXPECT_TRUE(before.controller_.TakeEffects().batch.updates.empty());
  ASSERT_EQ(before.controller_.next_wakeup(), before.now_ + std::chrono::seconds(10));
  before.now_ += std::chrono::seconds(10);
  before.controller_.OnExited(brief, 1, Exit{}, before.now_, before.now_, "n1");
  static_cast<void>(before.controller_.TakeEffects());
  before.controller_.Decide(before.now_);
  const Effects effects = before.controller_.TakeEffects();
  ASSERT_EQ(effects.batch.updates.size(), 1u);
  Machines after(0);
  after.controller_.OnNodeRow(MachineRow("n1", 4));
  after.controller_.Load(World::Stored(effects.batch.updates), {}, 100, 1, World::NoHistory());
  EXPECT_EQ(after.StateOf(job), JobState::kRunning);
  EXPECT_EQ(StateReason(after.controller_, after.Of(job)),
            "node n1 has not been heard from since the controller began; the job may go on there");
  after.controller_.OnNodeReconciled("n1");
  EXPECT_EQ(StateReason(after.controller_, after.Of(job)), after.Of(job).reason);
}

TEST(ControllerNodes, ASignalToADisconnectedNodeIsKeptWherePossible) {
  Machines world(1, 4);
  const JobId job = world.Submit(1);
  world.Turn();
  world.controller_.OnStarted(job, 1, world.now_, "n1");
  EXPECT_EQ(world.controller_.Signal(job, 10, SignalReach::kTree, world.ada_).value(), "sent");
  world.controller_.OnNodeLost("n1", world.now_);
  static_cast<void>(world.controller_.TakeEffects());
  EXPECT_EQ(world.controller_.Signal(job, 10, SignalReach::kTree, world.ada_).value(),
            "node n1 is lost: nothing was heard from it; the signal is delivered when it reconnects, and lost if its "
            "agent was restarted meanwhile");
  EXPECT_EQ(world.controller_.TakeEffects().commands.size(), 1u);

  // Without a session the signal cannot be kept.
  Machines after(0);
  after.controller_.OnNodeRow(MachineRow("n1", 4));
  after.controller_.Load(World::Stored({world.Of(job)}), {}, 100, 1, World::NoHistory());
  const auto refused = after.controller_.Signal(job, 10, SignalReach::kTree, world.ada_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "it cannot be signalled: node n1 has not been heard from since the controller began; try again when divvy nodes "
      "shows it up");
  EXPECT_TRUE(after.controller_.TakeEffects().commands.empty());
}

}  // namespace controller_machines_test
}  // namespace divvy
