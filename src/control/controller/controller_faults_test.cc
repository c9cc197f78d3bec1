// Nodes that cannot start jobs, and which failures count as the node's fault.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "control/controller/controller_machines_test_world.h"
#include "model/exit_codes.h"

namespace divvy {
namespace controller_faults_test {

using namespace std::chrono_literals;

TEST(NodeFaults, AJobThatANodeCannotStartMovesToAnotherNodeWhileTheNodePauses) {
  Machines world(2, 2);
  const JobId job = world.Submit(2);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", kMachineCannot, "cannot write the run record of the job: No space left on device");
  const JobId next = world.Submit(2);
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<LaunchCommand>(effects, job), Names{"n2"});
  EXPECT_TRUE(Machines::Told<LaunchCommand>(effects, next).empty());
  world.now_ = world.controller_.next_wakeup();
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), next), Names{"n1"});
}

TEST(NodeFaults, AfterRepeatedRefusalsTheJobIsStillTriedAgain) {
  Machines world(1, 2);
  const JobId job = world.Submit(2);
  for (int refusal = 1; refusal <= 3; ++refusal) {
    EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), Names{"n1"}) << refusal;
    world.End(job, "n1", kMachineCannot, "no more processes");
    EXPECT_EQ(world.StateOf(job), JobState::kQueued);
    EXPECT_EQ(world.Of(job).reason, "queued again: node n1 could not start it: no more processes");
    EXPECT_TRUE(Machines::Told<LaunchCommand>(world.Turn(), job).empty());
    world.now_ += 30s;
  }
  world.Turn();
  world.End(job, "n1", kMachineCannot, "no more processes");
  EXPECT_EQ(world.StateOf(job), std::nullopt);
}

TEST(NodeFaults, ANodeErrorAfterTheStartEndsTheJob) {
  Machines world(2, 2);
  const JobId job = world.SubmitGang(2, 2);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  // A failure that a user's own file could cause as well.
  world.End(job, "n1", kMachineCannot, "x");
  world.End(job, "n2", 143);
  EXPECT_EQ(world.StateOf(job), std::nullopt);
  const JobId next = world.SubmitGang(2, 2);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), next), (Names{"n1", "n2"}));
}

TEST(NodeFaults, ANodeErrorDoesNotReplaceTheReasonForWhichTheJobEnds) {
  Machines world(2, 2);
  const JobId job = world.SubmitGang(2, 2);
  world.Turn();
  world.End(job, "n1", 127, "cannot run 'trian': No such file or directory");
  world.End(job, "n2", kMachineCannot, "no more processes");
  EXPECT_EQ(world.StateOf(job), std::nullopt);
}

TEST(NodeFaults, NoJobWaitsForARemovedNode) {
  Machines world(2, 2);
  world.controller_.OnNodeRemoved("n2");
  JobSpec spec;
  spec.command = {"true"};
  spec.request.node_list = {"n2"};
  const auto refused = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
  EXPECT_FALSE(refused);
  world.Come("n2", 2);
  const auto taken = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), taken->id), Names{"n2"});
}

TEST(NodeFaults, AProgramThatCannotBeExecutedIsNoNodeFault) {
  Machines world(1, 2);
  const JobId job = world.Submit(2);
  world.Turn();
  world.End(job, "n1", 127, "cannot run 'trian.py': No such file or directory");
  EXPECT_EQ(world.StateOf(job), std::nullopt);
  const JobId next = world.Submit(2);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), next), Names{"n1"});
}

TEST(NodeFaults, AnUnhealthyNodeGetsNoJobsUntilItRecovers) {
  Machines world(1, 2);
  world.controller_.OnNodeTrouble("n1", "its disk is full");
  const JobId job = world.Submit(2);
  EXPECT_TRUE(Machines::Told<LaunchCommand>(world.Turn(), job).empty());
  world.controller_.OnNodeTrouble("n1", "");
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", 0);
  // A session begins, and the node reports its state again.
  world.controller_.OnNodeTrouble("n1", "its disk is full");
  world.controller_.OnNodeReconciled("n1");
  const JobId next = world.Submit(2);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), next), Names{"n1"});
}

TEST(NodeFaults, AGangStartsWithoutANodeThatCannotPrepare) {
  Machines world(3, 2);
  const JobId job = world.SubmitGang(2, 2);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), (Names{"n1", "n2"}));
  world.End(job, "n2", kMachineCannot, "cannot make the run record '1': No space left on device");
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", 143);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), (Names{"n1", "n3"}));
}

}  // namespace controller_faults_test
}  // namespace divvy
