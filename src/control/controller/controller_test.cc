#include "control/controller/controller.h"

#include <gtest/gtest.h>

#include "control/books/record_parts.h"
#include "control/controller/controller_test_world.h"
#include "engine/scheduler/explain.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace divvy {
namespace controller_test {

TEST(Controller, AJobThatStartsAtOnceIsStoredWithOneInsert) {
  World world(1);
  const JobId job = world.Submit(1);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::Launched(effects), std::vector{job});
  ASSERT_EQ(effects.batch.inserts.size(), 1u);
  EXPECT_EQ(effects.batch.inserts[0].record.state, JobState::kStarting);
  EXPECT_TRUE(effects.batch.updates.empty());
}

TEST(Controller, AUserHasALimitOfWaitingJobsAndOthersAreNotAffected) {
  World world(1);
  world.Submit(1, World::kMostOfAUser - 1);
  world.Submit(1);
  JobSpec spec;
  spec.command = {"true"};
  Caller caller = world.ada_;
  const auto refused = world.controller_.Submit(spec, 0, caller, world.now_, World::NoHistory());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(refused.error().message.find("1000000 of at most 1000000"), std::string::npos) << refused.error().message;
  caller.user = {1001, 1001, "bob"};
  EXPECT_TRUE(world.controller_.Submit(spec, 0, caller, world.now_, World::NoHistory()));
  caller = world.ada_;
  caller.is_admin = true;
  EXPECT_TRUE(world.controller_.Submit(spec, 0, caller, world.now_, World::NoHistory()));
}

TEST(Controller, TheNextJobStartsInTheStepInWhichTheOwnerEnds) {
  World world(1);
  const JobId first = world.Submit(1), second = world.Submit(1);
  world.Turn();
  world.Exit(first, 0);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::EndOf(effects, first), JobState::kSucceeded);
  EXPECT_EQ(World::Launched(effects), std::vector{second});
}

TEST(Controller, AReportOfAnEarlierAttemptIsIgnored) {
  World world(1);
  const JobId job = world.Submit(1, 0, {}, 1);
  world.Turn();
  world.Exit(job, 1);
  world.now_ += std::chrono::minutes(1);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector{job});
  world.controller_.OnExited(job, 1, Exit(), world.now_, world.now_);
  EXPECT_EQ(world.StateOf(job), JobState::kStarting);
  world.Exit(job, 1);
  EXPECT_EQ(World::EndOf(world.Turn(), job), JobState::kFailed);
}

TEST(Controller, AChainOfDependenciesEndsWithItsFirstFailure) {
  World world(1);
  const JobId first = world.Submit(1);
  const JobId second = world.Submit(0, 0, {{DependencyKind::kAfterOk, first, {}, Duration(0)}});
  const JobId third = world.Submit(0, 0, {{DependencyKind::kAfterOk, second, {}, Duration(0)}});
  const JobId other = world.Submit(0, 0, {{DependencyKind::kAfterNotOk, first, {}, Duration(0)}});
  EXPECT_EQ(World::Launched(world.Turn()), std::vector{first});
  world.Exit(first, 3);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::EndOf(effects, second), JobState::kCancelled);
  EXPECT_EQ(World::EndOf(effects, third), JobState::kCancelled);
  EXPECT_EQ(World::Launched(effects), std::vector{other});
}

TEST(Controller, AJobWhoseDependencyCanNeverBeMetEndsAtSubmission) {
  World world(1);
  JobRecord failed;
  failed.id = JobId(77);
  failed.state = JobState::kFailed;
  JobSpec spec;
  spec.command = {"true"};
  spec.dependencies = {{DependencyKind::kAfterOk, failed.id, {}, Duration(0)}};
  const auto submitted =
      world.controller_.Submit(std::move(spec), 0, world.ada_, world.now_, [&](JobId) { return failed; });
  ASSERT_TRUE(submitted);
  EXPECT_EQ(submitted->state, JobState::kCancelled);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::EndOf(effects, submitted->id), JobState::kCancelled);
  ASSERT_EQ(effects.changes.size(), 2u) << "first that it is there, then that it has ended";
  EXPECT_EQ(effects.changes[0].state, JobState::kQueued);
  EXPECT_EQ(effects.changes[1].state, JobState::kCancelled);
}

TEST(Controller, AnArrayIsOneRecordUntilItsElementsDiffer) {
  World world(2);
  const JobId array = world.Submit(1, 1'000'000);
  world.Turn();
  EXPECT_EQ(world.controller_.live().size(), 3u);
  EXPECT_EQ(world.controller_.scheduler().waiting_count(), 999'998u);
  ASSERT_TRUE(world.controller_.Hold(ElementId(array, 500'000), world.ada_, world.now_));
  world.Turn();
  EXPECT_EQ(world.StateOf(ElementId(array, 500'000)), JobState::kHeld);
  EXPECT_EQ(world.controller_.ArrayOf(ElementId(array, 500'001))->id, array);
}

TEST(Controller, AnArrayEndsWithItsLastElementAndCountsThem) {
  World world(2);
  const JobId array = world.Submit(1, 3);
  world.Turn();
  const Time begun = world.now_;
  world.now_ += std::chrono::minutes(1);
  EXPECT_EQ(ElementOf(*world.controller_.Find(array), 2).started, kNoTime) << "it waits";
  world.Exit(ElementId(array, 0), 0);
  world.Exit(ElementId(array, 1), 4);
  world.Turn();
  world.Exit(ElementId(array, 2), 0);
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, array), JobState::kFailed);
  EXPECT_EQ(effects.finished.back().exit->code, 4);
  EXPECT_EQ(effects.finished.back().array_succeeded, 2u);
  EXPECT_EQ(effects.finished.back().started, begun) << "with its first element";
}

TEST(Controller, CancellingAnArrayEndsWaitingElementsAndStopsRunningOnes) {
  World world(2);
  const JobId array = world.Submit(1, 10);
  world.Turn();
  ASSERT_TRUE(world.controller_.Cancel(array, 0, Duration(-1), "", world.ada_, world.now_));
  EXPECT_EQ(world.Turn().commands.size(), 2u);
  world.Exit(ElementId(array, 0), 143);
  world.Exit(ElementId(array, 1), 143);
  EXPECT_EQ(World::EndOf(world.Turn(), array), JobState::kCancelled);
  EXPECT_TRUE(world.controller_.live().empty());
}

// The record of a job that has just ended, as stored.
JobRecord EndedRecord(const Effects& effects, JobId job) {
  for (const JobRecord& record : effects.finished) {
    if (record.id == job) return record;
  }
  ADD_FAILURE() << "job " << ToString(job) << " has not ended";
  return {};
}

TEST(Controller, AnEndedJobIsRequeuedUnderItsOwnId) {
  World world(1);
  const JobId first = world.Submit(1);
  const JobId job = world.Submit(1, 0, {{DependencyKind::kAfterOk, first, std::nullopt, Duration(0)}});
  world.Turn();
  world.Exit(first, 0);
  world.Turn();
  world.Exit(job, 3);
  JobRecord ended = EndedRecord(world.Turn(), job);
  JobSpec spec;
  spec.command = {"true"};
  Caller grace;
  grace.user = {2000, 2000, "grace"};
  EXPECT_FALSE(world.controller_.RequeueEnded(ended, spec, std::nullopt, {}, RequeueAs::kQueued, grace, world.now_));
  EXPECT_EQ(world.StateOf(job), std::nullopt);
  ASSERT_TRUE(
      world.controller_.RequeueEnded(ended, spec, std::nullopt, {}, RequeueAs::kQueued, world.ada_, world.now_));
  const Effects again = world.Turn();
  EXPECT_EQ(World::Launched(again), (std::vector<JobId>{job}));
  EXPECT_EQ(world.controller_.Find(job)->restarts, 1u);
  EXPECT_TRUE(world.controller_.Find(job)->dependencies.empty());
  world.Exit(job, 0);
  EXPECT_EQ(World::EndOf(world.Turn(), job), JobState::kSucceeded);
}

TEST(Controller, ListingsNameMissingCpusAndNotFreeGpus) {
  World world(8);
  JobSpec spec;
  spec.command = {"true"};
  spec.request.cpus = 8;
  ASSERT_TRUE(world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory()));
  spec.request.gpus = 1;
  spec.request.cpus = 1;
  const auto waits = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(waits);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{JobId(1)});
  EXPECT_EQ(world.controller_.WaitingReason(*world.controller_.Find(waits->id)), "needs 1 CPU, 0 of 8 are free");
}

TEST(Controller, AJobThatDependsOnOneWithATimeLimitShowsWhenThatEnds) {
  World world(2);
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;
  spec.time_limit = std::chrono::hours(1);
  ASSERT_TRUE(world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory()));
  const JobId job = world.Submit(1, 0, {{DependencyKind::kAfterOk, JobId(1), std::nullopt, Duration(0)}});
  world.Turn();
  const core::Explanation why = Explain(world.controller_.scheduler(), job, world.now_);
  EXPECT_EQ(why.start.typical, world.now_ + std::chrono::hours(1));
  EXPECT_EQ(why.start.basis, "after job 1, which ends in 1 h at the latest");
}

TEST(Controller, AnotherDependencyOnAJobThatLeftTheHistoryIsMet) {
  World world(1);
  const JobId first = world.Submit(1);
  const JobId job = world.Submit(1, 0, {{DependencyKind::kAfterNotOk, first, std::nullopt, Duration(0)}});
  ASSERT_TRUE(world.controller_.Hold(job, world.ada_, world.now_));
  world.Turn();
  world.Exit(first, 1);
  world.Turn();
  JobChanges changes;
  changes.dependencies.emplace();
  changes.dependencies->all = {{DependencyKind::kAfter, first, std::nullopt, Duration(0)}};
  ASSERT_TRUE(world.controller_.Update(job, changes, world.ada_, world.now_, World::NoHistory()));
  ASSERT_TRUE(world.controller_.Release(job, kNoTime, world.ada_, world.now_));
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{job});
}

TEST(Controller, AJobWhoseDependencyIsNoLongerInTheHistorySaysSo) {
  World world(1);
  const JobId first = world.Submit(1);
  const JobId job = world.Submit(1, 0, {{DependencyKind::kAfterOk, first, std::nullopt, Duration(0)}});
  world.Turn();
  const JobRecord waiting = *world.controller_.Find(job);
  World again(1);
  again.controller_.Load(World::Stored({waiting}), {}, job.value() + 1, 2, World::NoHistory());
  EXPECT_EQ(again.controller_.WaitingReason(waiting),
            "waits for job 1 to succeed, which is no longer in the history (divvy update 2 --dependency \"\" removes "
            "its dependencies)");
}

// The store after a restart, after retention has removed the target.
TEST(Controller, AMetDependencySurvivesTheRemovalOfItsJob) {
  World world(2);
  const JobId first = world.Submit(1);
  const JobId job = world.Submit(1, 0, {{DependencyKind::kAfterOk, first, std::nullopt, Duration(0)}});
  ASSERT_TRUE(world.controller_.Hold(job, world.ada_, world.now_));
  world.Turn();
  world.Exit(first, 0);
  const Effects effects = world.Turn();
  const auto row = std::ranges::find(effects.batch.updates, job, &JobRecord::id);
  ASSERT_NE(row, effects.batch.updates.end()) << "it is in the batch that has the end of its target";
  World again(2);
  again.controller_.Load(World::Stored({*row}), {}, job.value() + 1, 2, World::NoHistory());
  ASSERT_TRUE(again.controller_.Release(job, kNoTime, again.ada_, again.now_));
  EXPECT_EQ(World::Launched(again.Turn()), std::vector<JobId>{job});
}

TEST(Controller, AnImpossibleDependencySurvivesTheRemovalOfItsJob) {
  World world(2);
  const JobId first = world.Submit(1), second = world.Submit(1);
  JobSpec spec;
  spec.command = {"true"};
  spec.needs_any_dependency = true;
  spec.dependencies = {{DependencyKind::kAfterOk, first, std::nullopt, Duration(0)},
                       {DependencyKind::kAfterOk, second, std::nullopt, Duration(0)}};
  const JobId job = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory())->id;
  world.Turn();
  world.Exit(first, 3);
  world.Turn();
  World again(2);
  again.controller_.Load(World::Stored({*world.controller_.Find(second), *world.controller_.Find(job)}), {},
                         job.value() + 1, 3, World::NoHistory());
  again.Exit(second, 1);
  EXPECT_EQ(EndedRecord(again.Turn(), job).state, JobState::kCancelled);
}

TEST(Controller, AJobIsCancelledWhenItsOnlyOtherDependencyWouldBeACycle) {
  World world(1);
  const JobId other = world.Submit(1), first = world.Submit(0, 0, {});
  ASSERT_TRUE(world.controller_.Hold(first, world.ada_, world.now_));
  JobSpec spec;
  spec.command = {"true"};
  spec.needs_any_dependency = true;
  spec.dependencies = {{DependencyKind::kAfterOk, other, std::nullopt, Duration(0)},
                       {DependencyKind::kAfterAny, first, std::nullopt, Duration(0)}};
  const JobId second = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory())->id;
  JobChanges changes;
  changes.dependencies.emplace();
  changes.dependencies->all = {{DependencyKind::kAfterAny, second, std::nullopt, Duration(0)}};
  ASSERT_TRUE(world.controller_.Update(first, changes, world.ada_, world.now_, World::NoHistory()));
  ASSERT_TRUE(world.controller_.Release(first, kNoTime, world.ada_, world.now_));
  world.Turn();
  world.Exit(other, 1);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::EndOf(effects, second), JobState::kCancelled);
  EXPECT_EQ(World::Launched(effects), std::vector<JobId>{first});
}

TEST(Controller, AJobThatDependsOnAWithdrawnSubmissionDependsOnACancelledJob) {
  for (const DependencyKind kind : {DependencyKind::kAfterOk, DependencyKind::kAfterAny}) {
    World world(1);
    world.Submit(1);
    const JobId job = world.Submit(0, 0, {});
    ASSERT_TRUE(world.controller_.Hold(job, world.ada_, world.now_));
    world.Turn();
    const JobId refused = world.Submit(1);
    JobChanges changes;
    changes.dependencies.emplace();
    changes.dependencies->all = {{kind, refused, std::nullopt, Duration(0)}};
    ASSERT_TRUE(world.controller_.Update(job, changes, world.ada_, world.now_, World::NoHistory()));
    ASSERT_TRUE(world.controller_.Release(job, kNoTime, world.ada_, world.now_));
    EXPECT_TRUE(World::Launched(world.Turn()).empty());
    world.controller_.Withdraw({refused}, world.now_);
    const Effects effects = world.Turn();
    if (kind == DependencyKind::kAfterOk) EXPECT_EQ(World::EndOf(effects, job), JobState::kCancelled);
    else EXPECT_EQ(World::Launched(effects), std::vector<JobId>{job});
  }
}

TEST(Controller, AnEndedJobAboveTheCurrentTimeLimitIsNotRequeued) {
  Limits limits;
  limits.max_time_limit = std::chrono::hours(1);
  Controller controller(Policy(), limits, 1);
  JobRecord ended;
  ended.id = JobId(7);
  ended.user = {1000, 1000, "ada"};
  ended.time_limit = std::chrono::hours(2);
  JobSpec spec;
  spec.queues_anyway = true;
  Caller ada;
  ada.user = ended.user;
  const auto refused =
      controller.RequeueEnded(ended, spec, std::nullopt, {}, RequeueAs::kQueued, ada, Time(std::chrono::hours(1)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "it cannot run again unchanged; submit it again: jobs here may run 3600 s at most; give --time 3600s or less");
  ada.is_admin = true;
  EXPECT_TRUE(
      controller.RequeueEnded(ended, spec, std::nullopt, {}, RequeueAs::kQueued, ada, Time(std::chrono::hours(1))));
}

TEST(Controller, ARequeuedArrayElementRestoresItsArray) {
  World world(2);
  const JobId array = world.Submit(1, 2);
  world.Turn();
  world.Exit(ElementId(array, 0), 0);
  world.Exit(ElementId(array, 1), 5);
  const Effects effects = world.Turn();
  const JobRecord whole = EndedRecord(effects, array);
  EXPECT_EQ(whole.state, JobState::kFailed);
  const JobRecord element = EndedRecord(effects, ElementId(array, 1));
  ASSERT_TRUE(world.controller_.RequeueEnded(element, JobSpec(), whole, {}, RequeueAs::kHeld, world.ada_, world.now_));
  world.Turn();
  EXPECT_EQ(world.StateOf(array), JobState::kRunning);
  EXPECT_EQ(world.StateOf(element.id), JobState::kHeld);
  ASSERT_TRUE(world.controller_.Release(element.id, kNoTime, world.ada_, world.now_));
  world.Turn();
  world.Exit(element.id, 0);
  EXPECT_EQ(World::EndOf(world.Turn(), array), JobState::kSucceeded) << "both have succeeded in the end";
}

TEST(Controller, ARunningJobThatIsRequeuedOnHoldDoesNotStartAgain) {
  World world(1);
  const JobId job = world.Submit(1);
  world.Turn();
  ASSERT_TRUE(world.controller_.Requeue(job, RequeueAs::kHeld, world.ada_, world.now_));
  world.Exit(job, 143);
  EXPECT_TRUE(World::Launched(world.Turn()).empty());
  EXPECT_EQ(world.StateOf(job), JobState::kHeld);
  ASSERT_TRUE(world.controller_.Release(job, kNoTime, world.ada_, world.now_));
  EXPECT_EQ(World::Launched(world.Turn()), (std::vector<JobId>{job}));
  const JobId waiting = world.Submit(1);
  ASSERT_TRUE(world.controller_.Requeue(waiting, RequeueAs::kHeld, world.ada_, world.now_));
  EXPECT_EQ(world.StateOf(waiting), JobState::kHeld);
}

TEST(Controller, AForecastSubmitsNothing) {
  World world(2);
  const JobId running = world.Submit(2);
  world.Turn();
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;
  const auto waits = world.controller_.Foresee(spec, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(waits);
  EXPECT_TRUE(waits->allocations.empty());
  EXPECT_FALSE(waits->basis.empty());
  world.Exit(running, 0);
  world.Turn();
  const auto starts = world.controller_.Foresee(spec, 3, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(starts);
  EXPECT_EQ(starts->start, world.now_);
  ASSERT_EQ(starts->allocations.size(), 1u);
  EXPECT_EQ(starts->allocations[0].gpus.size(), 1);
  spec.request.gpus = 3;
  EXPECT_FALSE(world.controller_.Foresee(spec, 0, world.ada_, world.now_, World::NoHistory()));
  const Effects effects = world.Turn();
  EXPECT_TRUE(effects.batch.inserts.empty());
  EXPECT_TRUE(effects.commands.empty());
  EXPECT_TRUE(world.controller_.live().empty());
  EXPECT_EQ(world.Submit(1), starts->id);
}

TEST(Controller, AWithdrawnSubmissionLeavesNothingBehind) {
  World world(2);
  const JobId array = world.Submit(1, 10);
  world.Turn();
  world.controller_.Withdraw({array}, world.now_);
  EXPECT_EQ(world.controller_.CheckInvariants(), "");
  EXPECT_TRUE(world.controller_.live().empty());
  EXPECT_EQ(world.controller_.scheduler().free().size(), 2);
}

TEST(Controller, AWithdrawnArrayIncludesElementsThatWereSplitOff) {
  World world(2);
  const JobId array = world.Submit(1, 10);
  ASSERT_TRUE(world.controller_.Hold(ElementId(array, 7), world.ada_, world.now_));
  world.Turn();
  world.controller_.Withdraw({array}, world.now_);
  EXPECT_EQ(world.controller_.CheckInvariants(), "");
  EXPECT_TRUE(world.controller_.live().empty());
  EXPECT_EQ(world.controller_.scheduler().free().size(), 2);
  EXPECT_EQ(world.controller_.jobs_total(), 0u);
}

TEST(Controller, OtherUsersCannotChangeAJob) {
  World world(1);
  const JobId job = world.Submit(1);
  Caller eve;
  eve.user = {1001, 1001, "eve"};
  EXPECT_EQ(world.controller_.Cancel(job, 0, Duration(-1), "", eve, world.now_).error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(world.controller_.Restrict(GpuSet(), eve).error().code, ErrorCode::kPermissionDenied);
}

TEST(Controller, ALaunchThatNeverHappenedIsRequeuedAndAnUnseenEndIsLost) {
  World world(2);
  const JobId first = world.Submit(1), second = world.Submit(1);
  world.Turn();
  world.controller_.OnVanished(first, 1, Controller::Vanished::kNeverStarted, world.now_);
  world.controller_.OnVanished(second, 1, Controller::Vanished::kUnseen, world.now_);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::Launched(effects), std::vector{first});
  EXPECT_EQ(World::EndOf(effects, second), JobState::kLost);
}

TEST(Controller, ARunOnceJobIsLostWithItsNodeAndNeverRequeued) {
  World world(2);
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;
  spec.is_run_once = true;
  const auto once = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
  spec.is_run_once = false;
  const auto again = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(once && again);
  world.Turn();
  const auto refused = world.controller_.Requeue(once->id, RequeueAs::kQueued, world.ada_, world.now_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("runs once, since it was submitted with --no-requeue"), std::string::npos);
  for (const JobId job : {once->id, again->id})
    world.controller_.OnVanished(job, 1, Controller::Vanished::kFenced, world.now_);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::EndOf(effects, once->id), JobState::kLost);
  EXPECT_EQ(World::Launched(effects), std::vector{again->id});
}

TEST(Controller, AForeignProcessBlocksAGpuUntilItIsIgnoredOrGone) {
  World world(1);
  GpuObservation seen;
  GpuProcess process;
  process.identity = {4711, 99};
  process.user = "eve";
  process.memory_used = Bytes(std::int64_t{1} << 30);
  seen.processes = {process};
  world.controller_.OnGpusObserved({seen});
  const JobId job = world.Submit(1);
  EXPECT_TRUE(World::Launched(world.Turn()).empty());
  Caller root;
  root.is_admin = true;
  ASSERT_TRUE(world.controller_.Ignore({-1, {4711, 99}, "eve", "", ""}, true, root));
  EXPECT_EQ(World::Launched(world.Turn()), std::vector{job});
  seen.processes[0].identity.start_ticks = 100;  // The pid was reused by another process.
  world.controller_.OnGpusObserved({seen});
  EXPECT_TRUE(world.controller_.ignored().empty());
}

// A user's own daemon does not isolate jobs: a program may use any GPU, whatever it was given.
TEST(Controller, AJobsProcessOnAGpuThatItDoesNotHoldBlocksThatGpu) {
  World world(3);
  const JobId job = world.Submit(1);
  world.Turn();
  const auto has = static_cast<GpuIndex>(world.controller_.Find(job)->gpus.ToVector().front());
  const GpuIndex other = has == 0 ? 1 : 0;
  GpuObservation own, strange;
  own.index = has;
  strange.index = other;
  GpuProcess process;
  process.identity = {4711, 99};
  process.user = "ada";
  process.memory_used = Bytes(std::int64_t{1} << 30);
  process.supervisor_pid = 4700;
  process.job = job.value();
  own.processes = strange.processes = {process};
  world.controller_.OnGpusObserved({own, strange});
  const auto said = [&](GpuIndex gpu) {
    return world.controller_.scheduler().node(kOwnNode).availability[gpu].unmanaged;
  };
  EXPECT_EQ(said(has), "");
  EXPECT_EQ(
      said(other),
      "job " + ToString(job) +
          " of ada, which was not given this GPU (pid 4711, 1.0 GiB): its program should respect CUDA_VISIBLE_DEVICES");
  const JobId two = world.Submit(2);
  EXPECT_TRUE(World::Launched(world.Turn()).empty());
  Caller root;
  root.is_admin = true;
  ASSERT_TRUE(world.controller_.Ignore({-1, {4711, 99}, "ada", "", ""}, true, root));
  EXPECT_EQ(World::Launched(world.Turn()), std::vector{two});
  ASSERT_TRUE(world.controller_.Ignore({-1, {4711, 99}, "ada", "", ""}, false, root));
  EXPECT_NE(said(other), "");

  // Processes of the previous run may use its GPUs for a moment, and unknown processes are not attributed.
  strange.processes[0].started = world.now_ - std::chrono::minutes(1);
  world.controller_.OnGpusObserved({strange});
  EXPECT_EQ(said(other), "");
  strange.processes[0].started = world.now_;
  world.controller_.OnGpusObserved({strange});
  EXPECT_NE(said(other), "");
  strange.processes[0].job = 0;
  world.controller_.OnGpusObserved({strange});
  EXPECT_EQ(said(other), "");
}

TEST(Controller, AJobThatUsesAGpuWithoutARequestIsToldToRequestIt) {
  World world(1);
  const JobId job = world.Submit(0);
  world.Turn();
  GpuObservation seen;
  GpuProcess process;
  process.identity = {4711, 99};
  process.memory_used = Bytes(std::int64_t{1} << 30);
  process.supervisor_pid = 4700;
  process.job = job.value();
  seen.processes = {process};
  world.controller_.OnGpusObserved({seen});
  EXPECT_EQ(world.controller_.scheduler().node(kOwnNode).availability[0].unmanaged,
            "job " + ToString(job) +
                " of ada, which was not given this GPU (pid 4711, 1.0 GiB): it asked for no GPU (--gpus 1)");
}

TEST(Controller, ARecordIsInABatchOnceHoweverOftenItChanges) {
  World world(1);
  const JobId running = world.Submit(1);
  world.Turn();
  // A new batch knows nothing of the previous one, whose rows had the same positions.
  const JobId first = world.Submit(1), second = world.Submit(1);
  ASSERT_TRUE(world.controller_.Hold(second, world.ada_, world.now_));
  ASSERT_TRUE(world.controller_.Release(second, kNoTime, world.ada_, world.now_));
  ASSERT_TRUE(world.controller_.Hold(first, world.ada_, world.now_));
  ASSERT_TRUE(world.controller_.Cancel(running, 0, Duration(-1), "", world.ada_, world.now_));
  ASSERT_TRUE(world.controller_.Cancel(running, 9, Duration(0), "", world.ada_, world.now_));
  Effects effects = world.Turn();
  ASSERT_EQ(effects.batch.inserts.size(), 2u);
  EXPECT_EQ(effects.batch.inserts[0].record.state, JobState::kHeld);
  EXPECT_EQ(effects.batch.inserts[1].record.state, JobState::kQueued);
  ASSERT_EQ(effects.batch.updates.size(), 1u);
  EXPECT_EQ(effects.batch.updates[0].id, running);

  ASSERT_TRUE(world.controller_.Hold(second, world.ada_, world.now_));
  effects = world.Turn();
  EXPECT_TRUE(effects.batch.inserts.empty());
  ASSERT_EQ(effects.batch.updates.size(), 1u);
  EXPECT_EQ(effects.batch.updates[0].id, second);
}

// Each cancellation finds its own record however large the batch is: the last ones cost as much CPU time as the first
// ones. A linear search would make them more than ten times as expensive.
TEST(Controller, AHundredThousandJobsAreCancelledInOneStep) {
  constexpr std::uint64_t kJobs = 100'000;
  World world(1);
  world.Submit(1);
  std::vector<JobId> jobs;
  for (std::uint64_t i = 0; i < kJobs; ++i) jobs.push_back(world.Submit(1));
  world.controller_.TakeEffects();
  std::vector<std::clock_t> costs;  // Each is the cost of a tenth of the jobs.
  std::clock_t begun = std::clock();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_TRUE(world.controller_.Cancel(jobs[i], 0, Duration(-1), "", world.ada_, world.now_));
    if ((i + 1) % (kJobs / 10) != 0) continue;
    const std::clock_t now = std::clock();
    costs.push_back(now - begun);
    begun = now;
  }
  // Two samples each, because one of them may include a rehash.
  EXPECT_LT(std::min(costs[8], costs[9]), 5 * std::max(costs[0], costs[1]) + CLOCKS_PER_SEC / 100);
  const Effects effects = world.controller_.TakeEffects();
  EXPECT_EQ(effects.batch.updates.size(), kJobs);
  EXPECT_EQ(effects.finished.size(), kJobs);
}

}  // namespace controller_test
}  // namespace divvy
