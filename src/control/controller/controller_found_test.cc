// Runs that the store does not know: which GPUs are withheld, who may adopt or end them, and what the run journal
// restores.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_found_test {

/// A run of user ada with these GPUs, as a node finds it.
RunDescription Seen(std::uint64_t id, GpuSet gpus, std::uint32_t attempt = 1) {
  RunDescription run;
  run.record.id = JobId(id);
  run.record.attempt = attempt;
  run.record.user = {1000, 1000, "ada"};
  run.record.name = "train";
  run.record.request.gpus = gpus.size();
  run.record.gpus = gpus;
  run.record.submitted = Time(std::chrono::hours(499'000));
  run.record.started = Time(std::chrono::hours(499'001));
  run.record.state = JobState::kRunning;
  run.spec.command = {"train"};
  return run;
}

Exit Code(int code) {
  Exit exit;
  exit.code = code;
  return exit;
}

class FoundRuns : public testing::Test {
 protected:
  Controller::Found Find(RunDescription run) {
    return world_.controller_.OnFound(std::move(run), world_.now_, stored_);
  }
  template <typename Kind>
  static int Count(const Effects& effects) {
    return static_cast<int>(std::ranges::count_if(
        effects.commands, [](const NodeCommand& command) { return std::holds_alternative<Kind>(command); }));
  }
  std::string Unmanaged(std::size_t gpu) const {
    return world_.controller_.scheduler().node(kOwnNode).availability.at(gpu).unmanaged;
  }
  Result<std::string> Adopt(std::uint64_t id, const Caller& caller) {
    return world_.controller_.Adopt(JobId(id), caller, world_.now_);
  }

  World world_{2};
  FindOutcome stored_ = World::NoHistory();
};

TEST_F(FoundRuns, AnUnknownRunIsLeftAloneAndKeepsItsGpusAndId) {
  EXPECT_EQ(Find(Seen(17, GpuSet::Of({1}))), Controller::Found::kUnknown);
  EXPECT_NE(Unmanaged(1).find("job 17 of ada"), std::string::npos) << Unmanaged(1);
  EXPECT_EQ(Unmanaged(0), "");
  const JobId one = world_.Submit(1), two = world_.Submit(1);
  EXPECT_EQ(one, JobId(18));
  const Effects effects = world_.Turn();
  EXPECT_EQ(World::Launched(effects), std::vector{one});
  EXPECT_EQ(Count<StopCommand>(effects), 0);
  EXPECT_EQ(world_.StateOf(two), JobState::kQueued);
}

TEST_F(FoundRuns, AnUnknownRunKeepsTheIdsOfItsComponents) {
  RunDescription run = Seen(17, GpuSet::Of({1}));
  run.record.request.others.resize(2);
  Find(run);
  EXPECT_EQ(world_.Submit(1), JobId(20));
}

TEST_F(FoundRuns, AnAdoptedRunIsAJobWithItsOldIdAndItsExitCodeIsStored) {
  Find(Seen(17, GpuSet::Of({1})));
  ASSERT_TRUE(Adopt(17, world_.ada_));
  const Effects effects = world_.Turn();
  ASSERT_EQ(effects.batch.inserts.size(), 1u);
  EXPECT_EQ(effects.batch.inserts[0].spec->command, std::vector<std::string>{"train"});
  EXPECT_EQ(Count<AdoptCommand>(effects), 1);
  EXPECT_EQ(Unmanaged(1), "");
  EXPECT_EQ(Adopt(17, world_.ada_).error().code, ErrorCode::kFailedPrecondition) << "once";
  EXPECT_EQ(world_.StateOf(JobId(17)), JobState::kRunning);
  world_.controller_.OnExited(JobId(17), 1, Code(3), world_.now_, world_.now_);
  EXPECT_EQ(World::EndOf(world_.Turn(), JobId(17)), JobState::kFailed);
}

TEST_F(FoundRuns, AnAdoptionThatCannotBeStoredLeavesTheRunFound) {
  Find(Seen(17, GpuSet::Of({1})));
  ASSERT_TRUE(Adopt(17, world_.ada_));
  world_.controller_.Withdraw({JobId(17)}, world_.now_);
  EXPECT_NE(Unmanaged(1), "");
  EXPECT_TRUE(Adopt(17, world_.ada_));
}

TEST_F(FoundRuns, OnlyTheOwnerAndAdministratorsAdoptOrEndARun) {
  Find(Seen(17, GpuSet::Of({1})));
  Caller grace;
  grace.user = {1001, 1001, "grace"};
  EXPECT_EQ(Adopt(17, grace).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(world_.controller_.EndFound(JobId(17), grace).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(Count<StopCommand>(world_.Turn()), 0);
  grace.is_admin = true;
  ASSERT_TRUE(world_.controller_.EndFound(JobId(17), grace));
  EXPECT_EQ(Count<StopCommand>(world_.Turn()), 1);
  EXPECT_FALSE(Adopt(17, world_.ada_)) << "it is being ended";
  RunDescription ended = Seen(17, GpuSet::Of({1}));
  ended.exit = Code(143);
  Find(ended);
  EXPECT_EQ(Count<ForgetCommand>(world_.Turn()), 1);
  EXPECT_TRUE(world_.controller_.found().empty());
}

TEST_F(FoundRuns, ARunWithoutADescriptionIsNotAdopted) {
  RunDescription run;
  run.record.id = JobId(17);
  run.record.attempt = 1;
  run.record.user = {1000, 1000, ""};
  Find(run);
  EXPECT_EQ(Adopt(17, world_.ada_).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(world_.controller_.EndFound(JobId(17), world_.ada_));
}

TEST_F(FoundRuns, ARunOnGpusThatAreNowAllocatedIsNotAdopted) {
  world_.Submit(2);
  world_.Turn();
  Find(Seen(17, GpuSet::Of({1})));
  EXPECT_EQ(Adopt(17, world_.ada_).error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(FoundRuns, AKnownJobWhoseLaterRunIsOnOthersGpusIsHeldAndNotRunTwice) {
  world_.Submit(2);
  world_.Turn();
  const JobId job = world_.Submit(1);
  RunDescription run = Seen(job.value(), GpuSet::Of({1}), 2);
  run.record.submitted = world_.now_;
  EXPECT_EQ(Find(run), Controller::Found::kUnknown);
  EXPECT_EQ(world_.StateOf(job), JobState::kHeld);
}

TEST_F(FoundRuns, AnEndedRunFreesItsGpusAndCanStillBeAdopted) {
  Find(Seen(17, GpuSet::Of({1})));
  RunDescription ended = Seen(17, GpuSet::Of({1}));
  ended.exit = Code(0);
  EXPECT_EQ(Find(ended), Controller::Found::kUnknown);
  EXPECT_EQ(Unmanaged(1), "");
  EXPECT_EQ(Count<ForgetCommand>(world_.Turn()), 0);
  world_.Submit(2);
  world_.Turn();
  EXPECT_TRUE(Adopt(17, world_.ada_)) << "others may have its GPUs by now";
  const Effects effects = world_.Turn();
  EXPECT_EQ(World::EndOf(effects, JobId(17)), JobState::kSucceeded);
  EXPECT_EQ(Count<ForgetCommand>(effects), 1);
}

TEST_F(FoundRuns, ALaterAttemptOfAKnownJobIsAdopted) {
  const JobId job = world_.Submit(1);
  RunDescription run = Seen(job.value(), GpuSet::Of({1}), 2);
  run.record.submitted = world_.now_;
  EXPECT_EQ(Find(run), Controller::Found::kTaken);
  const Effects effects = world_.Turn();
  EXPECT_TRUE(World::Launched(effects).empty());
  EXPECT_EQ(world_.StateOf(job), JobState::kRunning);
  EXPECT_EQ(world_.controller_.Find(job)->attempt, 2u);
  EXPECT_EQ(Count<AdoptCommand>(effects), 1);
}

TEST_F(FoundRuns, AnArrayElementIsAdopted) {
  const JobId array = world_.Submit(1, 3);
  RunDescription run = Seen(ElementId(array, 2).value(), GpuSet::Of({0}));
  run.record.submitted = world_.now_;
  EXPECT_EQ(Find(run), Controller::Found::kTaken);
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector{ElementId(array, 0)});
}

TEST_F(FoundRuns, ARunWithTheIdOfAnotherJobIsUnknown) {
  const JobId job = world_.Submit(1);
  EXPECT_EQ(Find(Seen(job.value(), GpuSet::Of({1}), 2)), Controller::Found::kUnknown) << "submitted at another time";
  EXPECT_EQ(Adopt(job.value(), world_.ada_).error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(FoundRuns, ARunThatHasEndedInTheStoreIsStopped) {
  JobRecord lost = Seen(17, GpuSet::Of({1})).record;
  lost.state = JobState::kLost;
  stored_ = [&](JobId) { return lost; };
  EXPECT_EQ(Find(Seen(17, GpuSet::Of({1}))), Controller::Found::kOver);
  EXPECT_EQ(Count<StopCommand>(world_.Turn()), 1);
}

// --- The run journal -----------------------------------------------------------------------------------------------

TEST_F(FoundRuns, AJobThatEndedAfterTheBackupIsNotRunAgain) {
  const JobId job = world_.Submit(1);
  RunDescription run = Seen(job.value(), GpuSet::Of({1}));
  run.record.submitted = world_.now_;
  run.record.state = JobState::kStarting;
  world_.controller_.Replay(run, world_.now_);
  EXPECT_EQ(world_.StateOf(job), JobState::kStarting);
  run.record.state = JobState::kFailed;
  run.exit = Code(3);
  world_.controller_.Replay(run, world_.now_);
  const Effects effects = world_.Turn();
  EXPECT_TRUE(World::Launched(effects).empty());
  ASSERT_EQ(World::EndOf(effects, job), JobState::kFailed);
  EXPECT_EQ(effects.finished.back().exit->code, 3);
}

TEST_F(FoundRuns, AJobThatWasToBeRetriedIsQueuedWithItsRetriesCounted) {
  const JobId job = world_.Submit(1, 0, {}, 2);
  world_.Turn();
  RunDescription run = Seen(job.value(), GpuSet::Of({0}));
  run.record.submitted = world_.now_;
  run.record.state = JobState::kFailed;
  run.record.restarts = run.record.retries_used = 1;
  run.exit = Code(99);
  run.runs_again = true;
  world_.controller_.Replay(run, world_.now_);
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector{job});
  EXPECT_EQ(world_.controller_.Find(job)->attempt, 2u);
  EXPECT_EQ(world_.controller_.Find(job)->retries_used, 1u);
}

TEST_F(FoundRuns, AJobThatItsOwnerRequeuedIsNotEndedByTheJournal) {
  const JobId job = world_.Submit(1);
  world_.Turn();
  RunDescription run = Seen(job.value(), GpuSet());
  run.record.submitted = world_.now_;
  run.record.state = JobState::kCancelled;
  world_.Exit(job, 0);
  const JobRecord ended = world_.Turn().finished.back();
  ASSERT_TRUE(
      world_.controller_.RequeueEnded(ended, JobSpec(), std::nullopt, {}, RequeueAs::kHeld, world_.ada_, world_.now_));
  world_.controller_.Replay(run, world_.now_);
  EXPECT_EQ(world_.StateOf(job), JobState::kHeld);
}

TEST_F(FoundRuns, ARunOfARequeuedJobIsAdopted) {
  JobRecord ended = Seen(17, GpuSet::Of({1})).record;
  ended.state = JobState::kFailed;
  stored_ = [&](JobId id) { return id == ended.id ? std::optional(ended) : std::nullopt; };
  EXPECT_EQ(Find(Seen(17, GpuSet::Of({1}), 2)), Controller::Found::kTaken);
  world_.controller_.ReserveIds(18);
  const Effects effects = world_.Turn();
  EXPECT_TRUE(effects.batch.inserts.empty()) << "the store has its row";
  EXPECT_EQ(world_.StateOf(JobId(17)), JobState::kRunning);
}

TEST_F(FoundRuns, ReplayingWhatTheStoreKnowsChangesNothing) {
  const JobId job = world_.Submit(1);
  world_.Turn();
  RunDescription run = Seen(job.value(), GpuSet::Of({0}));
  run.record.submitted = world_.now_;
  run.record.state = JobState::kStarting;
  world_.controller_.Replay(run, world_.now_);
  EXPECT_TRUE(world_.Turn().batch.empty());
}

TEST_F(FoundRuns, AJobThatRanAndHasNoRunRecordIsLostAndNotRunAgain) {
  const JobId job = world_.Submit(1);
  world_.Turn();
  world_.controller_.OnStarted(job, 1, world_.now_);
  world_.controller_.OnVanished(job, 1, Controller::Vanished::kNeverStarted, world_.now_);
  EXPECT_EQ(World::EndOf(world_.Turn(), job), JobState::kLost);
}

}  // namespace controller_found_test
}  // namespace divvy
