// Jobs on the machines of agents, and gangs over several: prepared everywhere before anybody goes, ended everywhere
// before anything is free.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>

#include "control/controller_test_world.h"
#include "model/exit_codes.h"

namespace divvy {
namespace {

using namespace std::chrono_literals;

struct Machines : World {
  explicit Machines(int count, int gpus = 4, int own = 0) : World(own) {
    controller_.SetOwnName("head");
    for (int i = 1; i <= count; ++i) Come("n" + std::to_string(i), gpus);
    controller_.TakeEffects();
  }

  void Come(const std::string& name, int gpus) {
    controller_.OnNodeRow(MachineRow(name, gpus));
    controller_.OnNodeAccounted(name);
  }

  JobId SubmitGang(int nodes, int gpus) {
    JobSpec spec;
    spec.command = {"train"};
    spec.name = "gang";
    spec.request.gpus = gpus;
    spec.request.nodes = spec.request.tasks = nodes;
    const auto result = controller_.Submit(std::move(spec), 0, ada_, now_, NoHistory());
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->id : JobId();
  }

  const JobRecord& Of(JobId job) const { return controller_.live().at(job); }

  void Prepare(JobId job, const std::string& node) { controller_.OnPrepared(job, Of(job).attempt, node, 4711, now_); }
  void End(JobId job, const std::string& node, int code, const std::string& failure = "") {
    divvy::Exit exit;
    exit.code = code;
    exit.failure = failure;
    controller_.OnExited(job, Of(job).attempt, exit, now_, now_, node);
  }
  void StartGang(JobId job) {
    for (const Seat& seat : SeatsOf(Of(job))) Prepare(job, seat.node);
    controller_.OnStarted(job, Of(job).attempt, now_, Of(job).node);
  }

  template <typename Kind>
  static std::set<std::string> Told(const Effects& effects, JobId job) {
    std::set<std::string> nodes;
    for (const Order& order : effects.orders) {
      if (std::holds_alternative<Kind>(order) && JobOf(order) == job) nodes.insert(NodeOf(order));
    }
    return nodes;
  }
};

using Names = std::set<std::string>;

TEST(Machines, AJobIsLaunchedWhereItsGpusAre) {
  Machines world(2, 2);
  const JobId first = world.Submit(2), second = world.Submit(2);
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<LaunchOrder>(effects, first), Names{"n1"});
  EXPECT_EQ(Machines::Told<LaunchOrder>(effects, second), Names{"n2"});
  EXPECT_EQ(world.Of(second).node, "n2");
  // Another machine has no say in it.
  world.End(second, "n2", 0);
  EXPECT_EQ(World::EndOf(world.Turn(), second), JobState::kSucceeded);
  divvy::Exit exit;
  world.controller_.OnExited(first, 1, exit, world.now_, world.now_, "n2");
  EXPECT_EQ(world.StateOf(first), JobState::kStarting);
  EXPECT_EQ(Machines::Told<ForgetOrder>(world.Turn(), first), Names{"n2"});
}

TEST(Machines, AGangsStepsAreThoseOfTheMachineWithItsScript) {
  Machines world(2, 2);
  const JobId job = world.SubmitGang(2, 2);
  world.Turn();
  world.StartGang(job);
  divvy::Exit exit;
  exit.steps = "elsewhere";
  world.controller_.OnExited(job, 1, exit, world.now_, world.now_, SeatsOf(world.Of(job))[1].node);
  exit.steps = "here";
  world.controller_.OnExited(job, 1, exit, world.now_, world.now_, SeatsOf(world.Of(job))[0].node);
  const Effects effects = world.Turn();
  ASSERT_EQ(effects.finished.size(), 1u);
  EXPECT_EQ(effects.finished.front().exit->steps, "here");
  for (const Seat& seat : effects.finished.front().gang) EXPECT_EQ(seat.exit->steps, "");
}

TEST(Machines, AGangThatMissedAMachinesTasksFirstNamesThatMachine) {
  Machines world(2, 2);
  const JobId job = world.SubmitGang(2, 2);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  // Its first machine has seen the tasks of the other go before that says why.
  world.End(job, "n1", 143);
  world.End(job, "n2", 1, "the job's step process on this machine has ended");
  const Effects effects = world.Turn();
  ASSERT_EQ(effects.finished.size(), 1u);
  EXPECT_EQ(effects.finished.front().exit->code, 143);
  EXPECT_EQ(effects.finished.front().reason, "node n2 lost its part: the job's step process on this machine has ended");
}

JobSpec Components(int first_gpus, std::vector<Component> others) {
  JobSpec spec;
  spec.command = {"train"};
  spec.request.gpus = first_gpus;
  spec.request.others = std::move(others);
  return spec;
}

Component WithGpus(int gpus, int nodes = 1) {
  Component one;
  one.gpus = gpus;
  one.nodes = one.tasks = nodes;
  return one;
}

TEST(Machines, ComponentsArePreparedTogetherAndEndTogether) {
  Machines world(3, 4);
  const auto job =
      world.controller_.Submit(Components(4, {WithGpus(4, 2)}), 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job->id), (Names{"n1", "n2", "n3"}));
  const std::vector<Seat> seats = SeatsOf(world.Of(job->id));
  ASSERT_EQ(seats.size(), 3U);
  EXPECT_EQ(seats[0].parts, (std::vector<SeatPart>{{0, seats[0].gpus, 1}}));
  EXPECT_EQ(seats[1].parts, (std::vector<SeatPart>{{1, seats[1].gpus, 1}}));
  world.Prepare(job->id, seats[0].node);
  world.Prepare(job->id, seats[2].node);
  EXPECT_TRUE(Machines::Told<GoOrder>(world.Turn(), job->id).empty()) << "one is not ready";
  world.Prepare(job->id, seats[1].node);
  EXPECT_EQ(Machines::Told<GoOrder>(world.Turn(), job->id).size(), 3U);
  world.controller_.OnStarted(job->id, 1, world.now_, seats[0].node);
  // A machine of the second component loses its part.
  world.End(job->id, seats[2].node, 137);
  const Effects stopping = world.Turn();
  EXPECT_EQ(Machines::Told<StopOrder>(stopping, job->id), (Names{seats[0].node, seats[1].node}));
  EXPECT_EQ(world.controller_.cluster().free_count(), 0) << "nothing is free before all have ended";
  world.End(job->id, seats[0].node, 143);
  world.End(job->id, seats[1].node, 143);
  EXPECT_EQ(World::EndOf(world.Turn(), job->id), JobState::kFailed);
  EXPECT_EQ(world.controller_.cluster().free_count(), 12);
}

TEST(Machines, ComponentsOnOneMachineAreAGangOfOne) {
  Machines world(1, 4);
  const auto job =
      world.controller_.Submit(Components(2, {WithGpus(1)}), 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(job);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job->id), Names{"n1"});
  const std::vector<Seat> seats = SeatsOf(world.Of(job->id));
  ASSERT_EQ(seats.size(), 1U);
  EXPECT_EQ(seats[0].gpus.size(), 3);
  EXPECT_EQ(seats[0].parts.size(), 2U);
  world.Prepare(job->id, "n1");
  EXPECT_EQ(Machines::Told<GoOrder>(world.Turn(), job->id), Names{"n1"});
  world.controller_.OnStarted(job->id, 1, world.now_, "n1");
  world.End(job->id, "n1", 0);
  EXPECT_EQ(World::EndOf(world.Turn(), job->id), JobState::kSucceeded);
}

TEST(Machines, ComponentsThatNeverFitTogetherAreRefused) {
  Machines world(2, 4);
  const auto job = world.controller_.Submit(Components(3, {WithGpus(3), WithGpus(3)}), 0, world.ada_, world.now_,
                                            World::NoHistory());
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("fits alone"), std::string::npos) << job.error().message;
  // What they ask for is not changed afterwards.
  const auto fits =
      world.controller_.Submit(Components(3, {WithGpus(3)}), 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(fits);
  JobChanges changes;
  changes.gpus = 1;
  const auto changed = world.controller_.Update(fits->id, changes, world.ada_, world.now_, World::NoHistory());
  ASSERT_FALSE(changed);
  EXPECT_NE(changed.error().message.find("components"), std::string::npos) << changed.error().message;
}

TEST(Machines, NothingGoesToAMachineBeforeItIsAccountedForOrWhileItIsLost) {
  Machines world(0);
  world.controller_.OnNodeRow(MachineRow("n1", 2));
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 2;
  const auto job = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(job);
  EXPECT_TRUE(World::Launched(world.Turn()).empty());
  world.controller_.OnNodeAccounted("n1");
  world.controller_.OnNodeLost("n1", world.now_);
  EXPECT_TRUE(World::Launched(world.Turn()).empty());
  world.controller_.OnNodeBack("n1");
  EXPECT_EQ(World::Launched(world.Turn()), std::vector{job->id});
}

TEST(Machines, ALostMachineKeepsItsJobsUntilItIsFenced) {
  Machines world(2, 2);
  const JobId job = world.Submit(2);
  world.Turn();
  world.controller_.OnStarted(job, 1, world.now_, "n1");
  world.controller_.OnNodeLost("n1", world.now_);
  world.Turn();
  EXPECT_EQ(world.StateOf(job), JobState::kRunning);
  world.controller_.OnNodeFenced("n1", world.now_);
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<LaunchOrder>(effects, job), Names{"n2"});
  EXPECT_EQ(world.Of(job).restarts, 1U);
  // What the old run may say is of no interest.
  divvy::Exit exit;
  world.controller_.OnExited(job, 1, exit, world.now_, world.now_, "n1");
  EXPECT_EQ(world.StateOf(job), JobState::kStarting);
}

TEST(Machines, ADrainedMachineStopsItsJobsAtTheDeadlineAndTheyGoElsewhere) {
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
  EXPECT_TRUE(Machines::Told<StopOrder>(world.Turn(), job).empty());
  EXPECT_LE(world.controller_.next_wakeup(), world.now_ + 1h);
  world.now_ += 1h;
  EXPECT_EQ(Machines::Told<StopOrder>(world.Turn(), job), Names{"n1"});
  EXPECT_NE(world.Of(job).reason.find("disk"), std::string::npos) << world.Of(job).reason;
  world.End(job, "n1", 143);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), Names{"n2"});
}

TEST(Machines, WhatAMachineCannotStartGoesElsewhereAndTheMachineRests) {
  Machines world(2, 2);
  const JobId job = world.Submit(2);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", kMachineCannot, "cannot write the run record of the job: No space left on device");
  const JobId next = world.Submit(2);
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<LaunchOrder>(effects, job), Names{"n2"});
  EXPECT_TRUE(Machines::Told<LaunchOrder>(effects, next).empty());
  world.now_ = world.controller_.next_wakeup();
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), next), Names{"n1"});
}

TEST(Machines, NobodyIsRefusedForEver) {
  Machines world(1, 2);
  const JobId job = world.Submit(2);
  for (int refusal = 1; refusal <= 3; ++refusal) {
    EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), Names{"n1"}) << refusal;
    world.End(job, "n1", kMachineCannot, "no more processes");
    EXPECT_EQ(world.StateOf(job), JobState::kQueued);
    EXPECT_EQ(world.Of(job).reason, "queued again: node n1 could not start it: no more processes");
    EXPECT_TRUE(Machines::Told<LaunchOrder>(world.Turn(), job).empty());
    world.now_ += 30s;
  }
  world.Turn();
  world.End(job, "n1", kMachineCannot, "no more processes");
  EXPECT_EQ(world.StateOf(job), std::nullopt);
}

TEST(Gangs, WhatHasBegunIsRefusedByNoMachine) {
  Machines world(2, 2);
  const JobId job = world.SubmitGang(2, 2);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  // Of the kind that a user's own file could say.
  world.End(job, "n1", kMachineCannot, "x");
  world.End(job, "n2", 143);
  EXPECT_EQ(world.StateOf(job), std::nullopt);
  const JobId next = world.SubmitGang(2, 2);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), next), (Names{"n1", "n2"}));
}

TEST(Gangs, AMachinesRefusalDoesNotOverruleWhyTheJobEnds) {
  Machines world(2, 2);
  const JobId job = world.SubmitGang(2, 2);
  world.Turn();
  world.End(job, "n1", 127, "cannot run 'trian': No such file or directory");
  world.End(job, "n2", kMachineCannot, "no more processes");
  EXPECT_EQ(world.StateOf(job), std::nullopt);
}

TEST(Machines, NobodyWaitsForAMachineThatWasRemoved) {
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
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), taken->id), Names{"n2"});
}

TEST(Machines, AProgramThatCannotBeRunIsNoMachinesFault) {
  Machines world(1, 2);
  const JobId job = world.Submit(2);
  world.Turn();
  world.End(job, "n1", 127, "cannot run 'trian.py': No such file or directory");
  EXPECT_EQ(world.StateOf(job), std::nullopt);
  const JobId next = world.Submit(2);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), next), Names{"n1"});
}

TEST(Machines, AMachineInTroubleTakesNothingUntilItIsOver) {
  Machines world(1, 2);
  world.controller_.OnNodeTrouble("n1", "its disk is full");
  const JobId job = world.Submit(2);
  EXPECT_TRUE(Machines::Told<LaunchOrder>(world.Turn(), job).empty());
  world.controller_.OnNodeTrouble("n1", "");
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", 0);
  // A session begins: what is so is told anew.
  world.controller_.OnNodeTrouble("n1", "its disk is full");
  world.controller_.OnNodeAccounted("n1");
  const JobId next = world.Submit(2);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), next), Names{"n1"});
}

TEST(Gangs, AMachineThatCannotPrepareItsPartIsDoneWithout) {
  Machines world(3, 2);
  const JobId job = world.SubmitGang(2, 2);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), (Names{"n1", "n2"}));
  world.End(job, "n2", kMachineCannot, "cannot make the run record '1': No space left on device");
  EXPECT_EQ(Machines::Told<StopOrder>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", 143);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), (Names{"n1", "n3"}));
}

TEST(Machines, AGpuThatIsGoneIsAtFaultAsLongAsSomethingRunsThere) {
  Machines world(1, 2);
  const JobId job = world.Submit(1);
  world.Turn();
  NodeRow row = MachineRow("n1", 1);
  world.controller_.OnNodeRow(row);
  world.Turn();
  EXPECT_EQ(world.controller_.cluster().node(1).capacity.gpus.size(), 2U);
  EXPECT_EQ(world.controller_.cluster().node(1).free().size(), 0);
  world.End(job, "n1", 0);
  world.controller_.OnNodeRow(row);
  world.Turn();
  EXPECT_EQ(world.controller_.cluster().node(1).capacity.gpus.size(), 1U);
  EXPECT_EQ(world.controller_.cluster().free_count(), 1);
}

TEST(Gangs, AllMachinesPrepareBeforeAnyGoes) {
  Machines world(3, 4);
  const JobId job = world.SubmitGang(2, 4);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), (Names{"n1", "n2"}));
  world.Prepare(job, "n1");
  EXPECT_TRUE(Machines::Told<GoOrder>(world.Turn(), job).empty());
  world.controller_.OnStarted(job, 1, world.now_, "n1");  // A lie.
  EXPECT_EQ(world.StateOf(job), JobState::kStarting);
  world.Prepare(job, "n2");
  const Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<GoOrder>(effects, job), (Names{"n1", "n2"}));
  ASSERT_EQ(effects.batch.updates.size(), 1U);
  EXPECT_TRUE(effects.batch.updates[0].was_let_go);
  world.controller_.OnStarted(job, 1, world.now_, "n2");
  EXPECT_EQ(world.StateOf(job), JobState::kStarting);
  world.controller_.OnStarted(job, 1, world.now_, "n1");
  EXPECT_EQ(world.StateOf(job), JobState::kRunning);
}

TEST(Gangs, TheFirstMachinesEndStopsTheOthersAndItsCodeIsTheJobs) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.End(job, "n1", 3);
  Effects effects = world.Turn();
  EXPECT_EQ(Machines::Told<StopOrder>(effects, job), Names{"n2"});
  EXPECT_EQ(world.StateOf(job), JobState::kStopping);
  EXPECT_EQ(world.controller_.cluster().free_count(), 0);
  world.End(job, "n2", 143);
  effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_EQ(effects.finished[0].exit->code, 3);
  EXPECT_EQ(world.controller_.cluster().free_count(), 8);
}

TEST(Gangs, WhatCannotBePreparedUndoesAllAndSaysWhy) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.Prepare(job, "n1");
  world.End(job, "n2", 127, "there is no user ada");
  EXPECT_EQ(Machines::Told<StopOrder>(world.Turn(), job), Names{"n1"});
  world.Prepare(job, "n1");  // Said again: too late.
  EXPECT_TRUE(Machines::Told<GoOrder>(world.Turn(), job).empty());
  world.End(job, "n1", 143);
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_NE(effects.finished[0].reason.find("node n2 could not prepare its part: there is no user ada"),
            std::string::npos)
      << effects.finished[0].reason;
}

TEST(Gangs, AMachineThatLosesItsPartEndsTheJobAndIsNamed) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.controller_.OnVanished(job, 1, Controller::Vanished::kUnseen, world.now_, "n2");
  EXPECT_EQ(Machines::Told<StopOrder>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", 143);
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_NE(effects.finished[0].reason.find("node n2 lost its part"), std::string::npos) << effects.finished[0].reason;
}

TEST(Gangs, WhoDoesNotPrepareInTimeIsNamedAndTheJobWaitsAgain) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.Prepare(job, "n1");
  world.Turn();
  EXPECT_LE(world.controller_.next_wakeup(), world.now_ + Controller::kPrepareWithin);
  world.now_ += Controller::kPrepareWithin;
  EXPECT_EQ(Machines::Told<StopOrder>(world.Turn(), job), (Names{"n1", "n2"}));
  EXPECT_NE(world.Of(job).reason.find("node n2"), std::string::npos) << world.Of(job).reason;
  world.End(job, "n1", 143);
  world.End(job, "n2", 143);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), (Names{"n1", "n2"}));
  EXPECT_EQ(world.Of(job).attempt, 2U);
}

TEST(Gangs, AFencedMachineIsOutAndTheJobGoesWhereThereIsRoom) {
  Machines world(3, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  world.StartGang(job);
  world.Turn();
  world.controller_.OnNodeLost("n2", world.now_);
  world.controller_.OnNodeFenced("n2", world.now_);
  EXPECT_EQ(Machines::Told<StopOrder>(world.Turn(), job), Names{"n1"});
  world.End(job, "n1", 143);
  EXPECT_EQ(Machines::Told<LaunchOrder>(world.Turn(), job), (Names{"n1", "n3"}));
}

TEST(Gangs, CancellingReachesAllMachinesOnceEach) {
  Machines world(2, 4);
  const JobId job = world.SubmitGang(2, 4);
  world.Turn();
  ASSERT_TRUE(world.controller_.Cancel(job, 0, Duration(-1), "", world.ada_, world.now_));
  EXPECT_EQ(Machines::Told<StopOrder>(world.Turn(), job), (Names{"n1", "n2"}));
  world.End(job, "n2", 143);
  world.End(job, "n1", 143);
  EXPECT_EQ(World::EndOf(world.Turn(), job), JobState::kCancelled);
}

TEST(Gangs, ARestartUndoesWhatWasGettingReadyAndKeepsWhatWentOn) {
  Machines before(2, 4);
  const JobId ready = before.SubmitGang(2, 2), unready = before.SubmitGang(2, 2);
  before.Turn();
  before.StartGang(ready);
  before.Prepare(unready, "n1");
  before.Turn();
  Machines after(2, 4);
  std::vector<JobRecord> live;
  for (const auto& [id, record] : before.controller_.live()) live.push_back(record);
  after.controller_.Load(live, {}, 100, 2, World::NoHistory());
  Effects effects = after.Turn();
  EXPECT_EQ(Machines::Told<StopOrder>(effects, unready), (Names{"n1", "n2"}));
  EXPECT_TRUE(Machines::Told<StopOrder>(effects, ready).empty());
  // Who comes back may not have heard that they may go.
  after.controller_.OnNodeAccounted("n2");
  EXPECT_EQ(Machines::Told<GoOrder>(after.Turn(), ready), (Names{"n1", "n2"}));
}

/// Machines that do as they are told, late and in any order, and sometimes fail, vanish or are fenced.
class History {
 public:
  explicit History(unsigned seed) : random_(seed), world_(4, 4, 2) {}

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step();
      Follow(world_.Turn());
      Check();
    }
    // All that was begun comes to an end.
    draining_ = true;
    for (int i = 0; i < 4000 && !world_.controller_.live().empty(); ++i) {
      Step();
      Follow(world_.Turn());
      Check();
    }
    EXPECT_TRUE(world_.controller_.live().empty());
    EXPECT_EQ(world_.controller_.cluster().free_count(), 18);
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
    for (const Order& order : effects.orders) {
      const std::pair key{JobOf(order), NodeOf(order)};
      if (const auto* launch = std::get_if<LaunchOrder>(&order)) {
        ASSERT_FALSE(parts_.contains(key)) << "job " << ToString(key.first) << " is launched twice on " << key.second;
        Part part;
        part.attempt = launch->record.attempt;
        part.is_gang = !launch->record.gang.empty();
        parts_[key] = part;
        continue;
      }
      const auto at = parts_.find(key);
      if (at == parts_.end()) continue;
      if (std::holds_alternative<StopOrder>(order)) at->second.is_stopping = true;
      if (const auto* go = std::get_if<GoOrder>(&order); go != nullptr && go->attempt == at->second.attempt) {
        for (const auto& [other, part] : parts_) {
          if (other.first != key.first) continue;
          EXPECT_TRUE(part.is_prepared) << "one goes before all are ready";
        }
        at->second.may_go = true;
      }
    }
  }

  // One owner of each GPU, as the machines see it.
  void Check() {
    std::map<std::string, GpuSet> taken;
    for (const auto& [key, part] : parts_) {
      const JobRecord* record = world_.controller_.Find(key.first);
      if (record == nullptr || record->attempt != part.attempt || !IsActive(record->state)) {
        ADD_FAILURE() << "job " << ToString(key.first) << " is still on " << key.second;
        continue;
      }
      for (const Seat& seat : SeatsOf(*record)) {
        if (seat.node != key.second) continue;
        EXPECT_TRUE((taken[key.second] & seat.gpus).empty());
        taken[key.second] = taken[key.second] | seat.gpus;
      }
    }
  }

  std::mt19937 random_;
  Machines world_;
  Parts parts_;
  bool draining_ = false;
};

TEST(Gangs, RandomHistoriesHaveOneOwnerAndNoPartIsLeftBehind) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    History(seed).Run(200);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace divvy
