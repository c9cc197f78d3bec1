// Jobs on agent nodes, and gangs over several nodes: prepared everywhere before any part starts, ended everywhere
// before any GPU is free.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>

#include "control/controller/controller_machines_test_world.h"
#include "control/controller/start_reason.h"

namespace divvy {
namespace controller_gangs_test {

using namespace std::chrono_literals;

TEST(ControllerNodes, AJobIsLaunchedOnTheNodeOfItsGpus) {
  Machines world(2, 2);
  const JobId first = world.Submit(2), second = world.Submit(2);
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<LaunchCommand>(effects, first), Names{"n1"});
  EXPECT_EQ(Machines::Told<LaunchCommand>(effects, second), Names{"n2"});
  EXPECT_EQ(world.Of(second).node, "n2");
  // A report from another node is ignored.
  world.End(second, "n2", 0);
  EXPECT_EQ(World::EndOf(world.Turn(), second), JobState::kSucceeded);
  divvy::Exit exit;
  world.controller_.OnExited(first, 1, exit, world.now_, world.now_, "n2");
  EXPECT_EQ(world.StateOf(first), JobState::kStarting);
  EXPECT_EQ(Machines::Told<ForgetCommand>(world.Turn(), first), Names{"n2"});
}

TEST(ControllerNodes, AGangsStepsAreListedOnTheNodeOfItsScript) {
  Machines world(2, 2);
  const JobId job = world.SubmitGang(2, 2);
  world.Turn();
  world.StartGang(job);
  divvy::Exit exit;
  exit.steps = "elsewhere";
  world.controller_.OnExited(job, 1, exit, world.now_, world.now_, AllocationsOf(world.Of(job))[1].node);
  exit.steps = "here";
  world.controller_.OnExited(job, 1, exit, world.now_, world.now_, AllocationsOf(world.Of(job))[0].node);
  const Effects effects = world.Turn();
  ASSERT_EQ(effects.finished.size(), 1u);
  EXPECT_EQ(effects.finished.front().exit->steps, "here");
  for (const NodeAllocation& allocation : effects.finished.front().gang) EXPECT_EQ(allocation.exit->steps, "");
}

TEST(ControllerNodes, TheReasonNamesTheNodeThatLostItsTasks) {
  Machines world(2, 2);
  const JobId job = world.SubmitGang(2, 2);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  // The first node noticed the loss of the other's tasks before that node reported the reason.
  world.End(job, "n1", 143);
  world.End(job, "n2", 1, "the job's step process on this node has ended");
  const Effects effects = world.Turn();
  ASSERT_EQ(effects.finished.size(), 1u);
  EXPECT_EQ(effects.finished.front().exit->code, 143);
  EXPECT_EQ(effects.finished.front().reason, "node n2 lost its part: the job's step process on this node has ended");
}

TEST(ControllerNodes, ANodeGetsNoJobsBeforeItIsReconciledOrWhileItIsLost) {
  Machines world(0);
  world.controller_.OnNodeRow(MachineRow("n1", 2));
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 2;
  const auto job = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(job);
  EXPECT_TRUE(World::Launched(world.Turn()).empty());
  world.controller_.OnNodeReconciled("n1");
  world.controller_.OnNodeLost("n1", world.now_);
  EXPECT_TRUE(World::Launched(world.Turn()).empty());
  world.controller_.OnNodeBack("n1");
  EXPECT_EQ(World::Launched(world.Turn()), std::vector{job->id});
}

TEST(ControllerNodes, ALostNodeKeepsItsJobsUntilItIsFenced) {
  Machines world(2, 2);
  const JobId job = world.Submit(2);
  world.Turn();
  world.controller_.OnStarted(job, 1, world.now_, "n1");
  world.controller_.OnNodeLost("n1", world.now_);
  world.Turn();
  EXPECT_EQ(world.StateOf(job), JobState::kRunning);
  world.controller_.OnNodeFenced("n1", world.now_);
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<LaunchCommand>(effects, job), Names{"n2"});
  EXPECT_EQ(world.Of(job).restarts, 1U);
  // A late report of the old run is ignored.
  divvy::Exit exit;
  world.controller_.OnExited(job, 1, exit, world.now_, world.now_, "n1");
  EXPECT_EQ(world.StateOf(job), JobState::kStarting);
}

TEST(ControllerNodes, ADrainedNodeStopsItsJobsAtTheDeadlineAndTheyRunElsewhere) {
  Machines world(1, 2);
  const JobId job = world.Submit(2);
  world.Turn();
  world.controller_.OnStarted(job, 1, world.now_, "n1");
  NodeRow row = MachineRow("n1", 2);
  row.work = NodeWork::kDraining;
  row.drain_deadline = world.now_ + 1h;
  row.reason = "disk, by root";
  world.controller_.OnNodeRow(row);
  world.Come("n2", 2);
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), job).empty());
  EXPECT_LE(world.controller_.next_wakeup(), world.now_ + 1h);
  world.now_ += 1h;
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), Names{"n1"});
  EXPECT_NE(world.Of(job).reason.find("disk"), std::string::npos) << world.Of(job).reason;
  world.End(job, "n1", 143);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), Names{"n2"});
}

TEST(ControllerNodes, AMissingGpuIsFaultyWhileAJobRunsThere) {
  Machines world(1, 2);
  const JobId job = world.Submit(1);
  world.Turn();
  NodeRow row = MachineRow("n1", 1);
  world.controller_.OnNodeRow(row);
  world.Turn();
  EXPECT_EQ(world.controller_.scheduler().node(1).capacity.gpus.size(), 2U);
  EXPECT_EQ(world.controller_.scheduler().node(1).free().size(), 0);
  world.End(job, "n1", 0);
  world.controller_.OnNodeRow(row);
  world.Turn();
  EXPECT_EQ(world.controller_.scheduler().node(1).capacity.gpus.size(), 1U);
  EXPECT_EQ(world.controller_.scheduler().free_count(), 1);
}

TEST(Gangs, AllNodesPrepareBeforeAnyStarts) {
  Machines world(3, 4);
  const JobId job = world.SubmitGang(2, 4);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), (Names{"n1", "n2"}));
  world.Prepare(job, "n1");
  EXPECT_TRUE(Machines::Told<GoCommand>(world.Turn(), job).empty());
  world.controller_.OnStarted(job, 1, world.now_, "n1");  // A false report.
  EXPECT_EQ(world.StateOf(job), JobState::kStarting);
  world.Prepare(job, "n2");
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<GoCommand>(effects, job), (Names{"n1", "n2"}));
  ASSERT_EQ(effects.batch.updates.size(), 1U);
  EXPECT_TRUE(effects.batch.updates[0].was_let_go);
  world.controller_.OnStarted(job, 1, world.now_, "n2");
  EXPECT_EQ(world.StateOf(job), JobState::kStarting);
  world.controller_.OnStarted(job, 1, world.now_, "n1");
  EXPECT_EQ(world.StateOf(job), JobState::kRunning);
}

TEST(Gangs, TheEndOnTheFirstNodeStopsTheOthersAndItsExitCodeCounts) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.End(job, "n1", 3);
  Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<StopCommand>(effects, job), Names{"n2"});
  EXPECT_EQ(world.StateOf(job), JobState::kStopping);
  EXPECT_EQ(world.controller_.scheduler().free_count(), 0);
  world.End(job, "n2", 143);
  effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_EQ(effects.finished[0].exit->code, 3);
  EXPECT_EQ(world.controller_.scheduler().free_count(), 8);
}

TEST(Gangs, EachNodeGetsOneStopOrderHoweverTheNodesEnd) {
  Machines world(4, 4);
  const JobId job = world.SubmitGang(4, 4);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.End(job, "n1", 0);
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), (Names{"n2", "n3", "n4"}));
  world.End(job, "n3", 0);
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), job).empty());
  world.End(job, "n2", 0);
  EXPECT_TRUE(Machines::Told<StopCommand>(world.Turn(), job).empty());
  world.End(job, "n4", 0);
  EXPECT_EQ(World::EndOf(world.Turn(), job), JobState::kSucceeded);
}

TEST(Gangs, AFailedPreparationStopsAllNodesAndNamesTheReason) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.Prepare(job, "n1");
  world.End(job, "n2", 127, "there is no user ada");
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), Names{"n1"});
  world.Prepare(job, "n1");  // A repeated report that comes too late.
  EXPECT_TRUE(Machines::Told<GoCommand>(world.Turn(), job).empty());
  world.End(job, "n1", 143);
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_NE(effects.finished[0].reason.find("node n2 could not prepare its part: there is no user ada"),
            std::string::npos)
      << effects.finished[0].reason;
}

TEST(Gangs, ANodeThatLosesItsTasksEndsTheJobAndIsNamed) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.controller_.OnVanished(job, 1, Controller::Vanished::kUnseen, world.now_, "n2");
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", 143);
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_NE(effects.finished[0].reason.find("node n2 lost its part"), std::string::npos) << effects.finished[0].reason;
}

TEST(Gangs, ALossOnANodeCountsAsAnAttempt) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4, 2);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.End(job, "n2", 1, "the job's step process on this node has ended");
  world.End(job, "n1", 143);
  EXPECT_EQ(World::EndOf(world.Turn(), job), std::nullopt);
  EXPECT_EQ(world.Of(job).reason,
            "try 1 of 3 ended: node n2 lost its part: the job's step process on this node has ended; tries again "
            "after 10 s");
  world.now_ += 10s;
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), (Names{"n1", "n2"}));
  // The user's program is missing, which is the same on every node.
  world.StartGang(job);
  world.End(job, "n1", 127, "cannot run 'nosuchprog': No such file or directory");
  world.End(job, "n2", 143);
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_EQ(effects.finished[0].reason, "node n1: cannot run 'nosuchprog': No such file or directory");
}

TEST(Gangs, ReachingTheTimeLimitDoesNotBlameANode) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4, 1);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  divvy::Exit limit;
  limit.hit_time_limit = true;
  // Each node enforces the limit; one reports it first.
  world.controller_.OnExited(job, 1, limit, world.now_, world.now_, "n2");
  limit.code = 143;
  limit.signal = 15;
  limit.hit_time_limit = false;
  world.controller_.OnExited(job, 1, limit, world.now_, world.now_, "n1");
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kTimedOut);
  EXPECT_EQ(effects.finished[0].exit->code, 143);
  EXPECT_TRUE(effects.batch.history.empty()) << effects.batch.history[0].text;
}

TEST(Gangs, OnlyTheFirstCauseIsReported) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.End(job, "n1", 1, "cannot open '/nope/x' for writing: No such file or directory");
  world.End(job, "n2", 1, "the job's step process does not listen for other nodes");
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_EQ(effects.finished[0].reason,
            "node n1 could not prepare its part: cannot open '/nope/x' for writing: No such file or directory");
  EXPECT_TRUE(effects.batch.history.empty()) << effects.batch.history[0].text;
}

TEST(Gangs, ACancelledGangHasTheExitCodeOfItsFirstNode) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 2), unseen = world.SubmitGang(2, 2);
  world.Turn();
  for (const JobId one : {job, unseen}) {
    world.StartGang(one);
    ASSERT_TRUE(world.controller_.Cancel(one, 0, Duration(-1), "", world.ada_, world.now_));
    world.End(one, "n2", 0);
  }
  world.Turn();
  world.End(job, "n1", 143);
  // Its supervisor and its guard were killed.
  divvy::Exit nobody_saw;
  nobody_saw.is_known = false;
  world.controller_.OnExited(unseen, 1, nobody_saw, world.now_, world.now_, "n1");
  const Effects effects = world.Turn();
  ASSERT_EQ(effects.finished.size(), 2u);
  EXPECT_EQ(effects.finished[0].exit->code, 143);
  EXPECT_EQ(effects.finished[1].state, JobState::kCancelled);
  EXPECT_FALSE(effects.finished[1].exit->is_known);
}

TEST(Gangs, TheReasonNamesTheNodesThatStillPrepare) {
  Machines world(3, 4);
  const JobId job = world.SubmitGang(3, 4);
  world.Turn();
  EXPECT_EQ(StateReason(world.controller_, world.Of(job)),
            "waits for node n1 and 2 more to prepare their parts, 60 s at most");
  world.Prepare(job, "n1");
  world.Prepare(job, "n3");
  EXPECT_EQ(StateReason(world.controller_, world.Of(job)), "waits for node n2 to prepare its part, 60 s at most");
  world.Prepare(job, "n2");
  EXPECT_EQ(StateReason(world.controller_, world.Of(job)), "first in line");
}

/// In the order of the batch.
std::vector<std::string> HistoryOf(const Effects& effects) {
  std::vector<std::string> texts;
  for (const Batch::HistoryLine& line : effects.batch.history) texts.push_back(line.text);
  return texts;
}

TEST(ControllerNodes, AWithdrawnGangDoesNotMatterWhenItsPreparationWouldBeLate) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.controller_.Withdraw({job}, world.now_);
  world.Turn();
  world.now_ += 61s;
  EXPECT_TRUE(world.Turn().commands.empty());
  EXPECT_EQ(world.controller_.scheduler().free_count(), 8);
}

TEST(ControllerNodes, HistoryShowsWhereEarlierRunsWere) {
  Machines world(2, 2);
  const JobId job = world.Submit(2, 0, {}, 1);
  world.Turn();
  const Time start = world.now_;
  world.controller_.OnStarted(job, 1, start, "n1");
  world.now_ += 5s;
  world.End(job, "n1", 1);
  Effects effects = world.Turn();
  EXPECT_EQ(HistoryOf(effects),
            (std::vector<std::string>{"run 1 started on n1 (GPUs 0-1): first in line",
                                      "try 1 of 2 ended with exit code 1; tries again after 10 s"}));
  EXPECT_EQ(effects.batch.history[0].at, start);
  ASSERT_EQ(effects.batch.past_runs.size(), 1u);
  EXPECT_EQ(effects.batch.past_runs[0].state, JobState::kFailed);
  world.now_ += 10s;
  world.Turn();
  world.controller_.OnVanished(job, 2, Controller::Vanished::kNeverStarted, world.now_, "n1");
  EXPECT_EQ(HistoryOf(world.Turn()), (std::vector<std::string>{"the daemon was restarted before it could start"}));
  world.controller_.OnStarted(job, 3, world.now_, "n1");
  world.End(job, "n1", 2);
  effects = world.Turn();
  ASSERT_EQ(effects.finished.size(), 1u);
  // The end of the previous run is recorded before the requeue.
  JobSpec spec;
  spec.command = {"true"};
  ASSERT_TRUE(
      world.controller_.RequeueEnded(effects.finished[0], spec, {}, {}, RequeueAs::kQueued, world.ada_, world.now_));
  EXPECT_EQ(HistoryOf(world.Turn()), (std::vector<std::string>{"run 3 started on n1 (GPUs 0-1): first in line",
                                                               "failed: exit code 2", "queued again by ada"}));
}

TEST(Gangs, ANodeThatDoesNotPrepareInTimeIsNamedAndTheJobWaitsAgain) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.Prepare(job, "n1");
  world.Turn();
  EXPECT_LE(world.controller_.next_wakeup(), world.now_ + Controller::kPrepareWithin);
  world.now_ += Controller::kPrepareWithin;
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), (Names{"n1", "n2"}));
  EXPECT_NE(world.Of(job).reason.find("node n2"), std::string::npos) << world.Of(job).reason;
  world.End(job, "n1", 143);
  world.End(job, "n2", 143);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job), (Names{"n1", "n2"}));
  EXPECT_EQ(world.Of(job).attempt, 2U);
}

TEST(Gangs, AGangLeavesAFencedNodeForNodesWithRoom) {
  Machines world(3, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.controller_.OnNodeLost("n2", world.now_);
  world.controller_.OnNodeFenced("n2", world.now_);
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", 143);
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<LaunchCommand>(effects, job), (Names{"n1", "n3"}));
  ASSERT_FALSE(effects.batch.history.empty());
  EXPECT_EQ(effects.batch.history.back().text, "queued again: node n2 was disconnected and has stopped its jobs");
}

TEST(Gangs, AnAdministratorReleasesAJobThatWaitsForALostNode) {
  Machines world(3, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.StartGang(job);
  const JobId alone = world.Submit(1);
  world.Turn();
  ASSERT_EQ(world.Of(alone).node, "n3");
  world.controller_.OnStarted(alone, 1, world.now_, "n3");
  world.Turn();
  world.controller_.OnNodeDisconnected("n2");
  static_cast<void>(world.controller_.Cancel(job, 0, Duration(-1), "", world.ada_, world.now_));
  world.End(job, "n1", 143);
  world.Turn();
  ASSERT_EQ(world.StateOf(job), JobState::kStopping);
  EXPECT_NE(StateReason(world.controller_, world.Of(job)).find("; node n2 is away"), std::string::npos);
  world.controller_.OnNodeGone("n2", world.now_);
  world.controller_.OnNodeRemoved("n2");
  world.controller_.OnNodeGone("n3", world.now_);
  world.controller_.OnNodeRemoved("n3");
  const Effects effects = world.Turn();
  EXPECT_EQ(world.controller_.Find(job), nullptr) << "it was cancelled";
  EXPECT_EQ(world.StateOf(alone), JobState::kStarting) << "on n1, whose GPUs are free";
  EXPECT_EQ(world.Of(alone).node, "n1");
}

TEST(Gangs, AJobThatStopsOnOtherNodesHoldsALostNodeUntilItHasEnded) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.controller_.OnNodeDisconnected("n2");
  world.controller_.OnNodeGone("n2", world.now_);
  world.controller_.OnNodeRemoved("n2");
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), Names{"n1"});
  EXPECT_EQ(world.controller_.CheckInvariants(), "");
  world.End(job, "n1", 143);
  world.Turn();
  EXPECT_EQ(world.StateOf(job), JobState::kQueued);
  EXPECT_EQ(world.controller_.scheduler().node(*world.controller_.scheduler().FindNode("n2")).capacity.gpus.size(), 0U);
  EXPECT_EQ(world.controller_.CheckInvariants(), "");
}

TEST(Gangs, CancellingReachesEachNodeOnce) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  ASSERT_TRUE(world.controller_.Cancel(job, 0, Duration(-1), "", world.ada_, world.now_));
  EXPECT_EQ(Machines::Told<StopCommand>(world.Turn(), job), (Names{"n1", "n2"}));
  world.End(job, "n2", 143);
  world.End(job, "n1", 143);
  EXPECT_EQ(World::EndOf(world.Turn(), job), JobState::kCancelled);
}

TEST(Gangs, ARestartUndoesPreparationsAndKeepsStartedGangs) {
  Machines before(2, 4);
  const JobId ready = before.SubmitGang(2, 2), unready = before.SubmitGang(2, 2);
  before.Turn();
  before.StartGang(ready);
  before.Prepare(unready, "n1");
  before.Turn();
  Machines after(2, 4);
  after.controller_.Load(before.controller_.live(), {}, 100, 2, World::NoHistory());
  Effects effects = after.Turn();
  EXPECT_EQ(Machines::Told<StopCommand>(effects, unready), (Names{"n1", "n2"}));
  EXPECT_TRUE(Machines::Told<StopCommand>(effects, ready).empty());
  // A reconnecting node may not have received the GoCommand.
  after.controller_.OnNodeReconciled("n2");
  EXPECT_EQ(Machines::Told<GoCommand>(after.Turn(), ready), (Names{"n1", "n2"}));
}

/// Nodes that follow orders late and in any order, and sometimes fail, vanish or are fenced.
class History {
 public:
  explicit History(unsigned seed) : random_(seed), world_(4, 4, 2) {}

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step();
      Follow(world_.Turn());
      Check();
    }
    // Everything that was started ends.
    draining_ = true;
    for (int i = 0; i < 4000 && !world_.controller_.live().empty(); ++i) {
      Step();
      Follow(world_.Turn());
      Check();
    }
    EXPECT_TRUE(world_.controller_.live().empty());
    EXPECT_EQ(world_.controller_.scheduler().free_count(), 18);
  }

 private:
  struct Part {
    std::uint32_t attempt = 0;
    bool is_gang = false;
    bool is_prepared = false;
    bool may_go = false;
    bool is_stopping = false;
    bool runs = false;
  };
  int Draw(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  void Step() {
    world_.now_ += std::chrono::seconds(Draw(5));
    const int what = Draw(10);
    if (what < 2 && !draining_) {
      if (Draw(2) == 0) world_.Submit(1 + Draw(4));
      else world_.SubmitGang(2 + Draw(2), 1 + Draw(4));
      return;
    }
    if (what == 2 && Draw(6) == 0) {
      const std::string node = "n" + std::to_string(1 + Draw(4));
      world_.controller_.OnNodeLost(node, world_.now_);
      if (Draw(2) == 0) {
        world_.controller_.OnNodeFenced(node, world_.now_);
        std::erase_if(parts_, [&](const auto& part) { return part.first.second == node; });
      }
      world_.controller_.OnNodeBack(node);
      return;
    }
    if (parts_.empty()) return;
    auto at = parts_.begin();
    std::advance(at, Draw(static_cast<int>(parts_.size())));
    const auto [job, node] = at->first;
    Part& part = at->second;
    if (part.is_stopping || (what == 3 && Draw(8) == 0)) return End(at, 1, "");
    if (what == 4 && Draw(10) == 0) return Vanish(at);
    if (part.is_gang && !part.is_prepared) {
      part.is_prepared = true;
      return world_.controller_.OnPrepared(job, part.attempt, node, 99, world_.now_);
    }
    if (!part.runs && (!part.is_gang || part.may_go)) {
      part.runs = true;
      return world_.controller_.OnStarted(job, part.attempt, world_.now_, node);
    }
    const JobRecord* record = world_.controller_.Find(job);
    const bool is_head = record != nullptr && record->node == node;
    if (part.runs && is_head && (draining_ || Draw(3) == 0)) End(at, Draw(3) == 0 ? 7 : 0, "");
  }

  using Parts = std::map<std::pair<JobId, std::string>, Part>;
  void End(Parts::iterator at, int code, const std::string& failure) {
    const auto [job, node] = at->first;
    const std::uint32_t attempt = at->second.attempt;
    parts_.erase(at);
    divvy::Exit exit;
    exit.code = code;
    exit.failure = failure;
    world_.controller_.OnExited(job, attempt, exit, world_.now_, world_.now_, node);
  }
  void Vanish(Parts::iterator at) {
    const auto [job, node] = at->first;
    const std::uint32_t attempt = at->second.attempt;
    parts_.erase(at);
    world_.controller_.OnVanished(job, attempt, static_cast<Controller::Vanished>(Draw(3)), world_.now_, node);
  }

  void Follow(const Effects& effects) {
    for (const NodeCommand& command : effects.commands) {
      const std::pair key{JobOf(command), NodeOf(command)};
      if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
        ASSERT_FALSE(parts_.contains(key)) << "job " << ToString(key.first) << " is launched twice on " << key.second;
        Part part;
        part.attempt = launch->record.attempt;
        part.is_gang = !launch->record.gang.empty();
        parts_[key] = part;
        continue;
      }
      const auto at = parts_.find(key);
      if (at == parts_.end()) continue;
      if (std::holds_alternative<StopCommand>(command)) at->second.is_stopping = true;
      if (const auto* go = std::get_if<GoCommand>(&command); go != nullptr && go->attempt == at->second.attempt) {
        for (const auto& [other, part] : parts_) {
          if (other.first != key.first) continue;
          EXPECT_TRUE(part.is_prepared) << "one goes before all are ready";
        }
        at->second.may_go = true;
      }
    }
  }

  // Each GPU has one owner from the nodes' perspective.
  void Check() {
    std::map<std::string, GpuSet> taken;
    for (const auto& [key, part] : parts_) {
      const JobRecord* record = world_.controller_.Find(key.first);
      if (record == nullptr || record->attempt != part.attempt || !IsActive(record->state)) {
        ADD_FAILURE() << "job " << ToString(key.first) << " is still on " << key.second;
        continue;
      }
      for (const NodeAllocation& allocation : AllocationsOf(*record)) {
        if (allocation.node != key.second) continue;
        EXPECT_TRUE((taken[key.second] & allocation.gpus).empty());
        taken[key.second] = taken[key.second] | allocation.gpus;
      }
    }
  }

  std::mt19937 random_;
  Machines world_;
  Parts parts_;
  bool draining_ = false;
};

TEST(Gangs, RandomHistoriesLeaveNoGpuWithTwoOwnersAndNoTaskBehind) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    History(seed).Run(200);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace controller_gangs_test
}  // namespace divvy
