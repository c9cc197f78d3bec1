#include <algorithm>

#include "control/controller/controller_test_world.h"
#include "control/state/deadline_watch.h"
#include "model/reason_words.h"

namespace divvy {
namespace controller_deadlines_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class DeadlineWorld : public World {
 public:
  using World::World;
  Result<SubmitResult> Try(Duration limit, Duration in, std::uint64_t elements = 0) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "job";
    spec.request.gpus = 1;
    spec.time_limit = limit;
    spec.end_by = now_ + in;
    return controller_.Submit(std::move(spec), elements, ada_, now_, NoHistory());
  }
  JobId Late(Duration limit, Duration in, std::uint64_t elements = 0) {
    const auto result = Try(limit, in, elements);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->id : JobId();
  }
  static const JobRecord* Ended(const Effects& effects, JobId job) {
    const auto at = std::ranges::find(effects.finished, job, &JobRecord::id);
    return at == effects.finished.end() ? nullptr : &*at;
  }
};

TEST(Deadlines, AJobThatCannotEndInTimeIsRefusedWithASuggestion) {
  DeadlineWorld world(1);
  const auto refused = world.Try(hours(2), hours(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "with a time limit of 2 h the job cannot end by its deadline; give a shorter limit, or a later deadline");
  EXPECT_FALSE(world.Try(Duration(0), -seconds(1))) << "it has passed";
  EXPECT_TRUE(world.Try(hours(2), hours(2))) << "just in time";
  const Time now = world.now_;
  EXPECT_FALSE(CheckDeadline(now + hours(3), hours(2), now + minutes(61), now)) << "it begins too late for that";
  EXPECT_TRUE(CheckDeadline(now + hours(3), hours(2), now + minutes(60), now));
}

TEST(Deadlines, AJobThatCouldOnlyStartTooLateLeavesTheQueueAtThatMoment) {
  DeadlineWorld world(1);
  const JobId first = world.Submit(1);
  const JobId late = world.Late(hours(1), hours(3));
  world.Turn();
  EXPECT_LE(world.controller_.next_wakeup(), world.now_ + hours(2) + Duration(1));
  world.now_ += hours(2);
  world.Turn();
  EXPECT_EQ(world.StateOf(late), JobState::kQueued) << "it could still start";
  world.now_ += Duration(1);
  const Effects effects = world.Turn();
  ASSERT_NE(DeadlineWorld::Ended(effects, late), nullptr);
  EXPECT_EQ(DeadlineWorld::Ended(effects, late)->state, JobState::kTimedOut);
  EXPECT_EQ(DeadlineWorld::Ended(effects, late)->reason, kTooLateForDeadline);
  EXPECT_EQ(world.StateOf(first), JobState::kStarting);
}

TEST(Deadlines, ARunWithoutATimeLimitEndsAtTheDeadline) {
  DeadlineWorld world(1);
  const JobId job = world.Late(Duration(0), hours(1));
  const Effects effects = world.Turn();
  ASSERT_EQ(World::Launched(effects), std::vector<JobId>{job});
  EXPECT_EQ(world.controller_.Find(job)->time_limit, hours(1));
  EXPECT_EQ(world.controller_.scheduler().running(job)->known_end, world.now_ + hours(1))
      << "who waits for it is told so";
  // The start was delayed.
  world.now_ += minutes(10);
  world.controller_.OnStarted(job, 1, world.now_);
  EXPECT_EQ(Deadline(*world.controller_.Find(job)), world.controller_.Find(job)->end_by);
  const Effects told = world.Turn();
  EXPECT_TRUE(std::ranges::any_of(
      told.commands, [](const NodeCommand& one) { return std::holds_alternative<TimeLimitCommand>(one); }));
  Exit exit;
  exit.signal = 15;
  exit.hit_time_limit = true;
  world.controller_.OnExited(job, 1, exit, world.now_ + minutes(50), world.now_ + minutes(50));
  const Effects ended = world.Turn();
  ASSERT_NE(DeadlineWorld::Ended(ended, job), nullptr);
  EXPECT_EQ(DeadlineWorld::Ended(ended, job)->reason, kReachedDeadline);
}

TEST(Deadlines, ARequeuedJobHasItsRequestedTimeLimitAgain) {
  DeadlineWorld world(1);
  const JobId job = world.Late(Duration(0), hours(1));
  world.Turn();
  world.controller_.OnStarted(job, 1, world.now_);
  ASSERT_TRUE(world.controller_.Requeue(job, RequeueAs::kHeld, world.ada_, world.now_));
  world.Exit(job, 143);
  world.Turn();
  ASSERT_EQ(world.StateOf(job), JobState::kHeld);
  EXPECT_EQ(world.controller_.Find(job)->time_limit, Duration(0));
  world.now_ += hours(2);
  EXPECT_EQ(World::EndOf(world.Turn(), job), JobState::kTimedOut) << "also who is held";
}

TEST(Deadlines, WaitingArrayElementsAreCancelledAndRunningOnesContinue) {
  DeadlineWorld world(1);
  const JobId array = world.Late(minutes(10), hours(1), 3);
  world.Turn();
  world.controller_.OnStarted(ElementId(array, 0), 1, world.now_);
  world.now_ += minutes(51);
  world.Turn();
  EXPECT_EQ(world.StateOf(array), JobState::kRunning);
  EXPECT_EQ(world.StateOf(ElementId(array, 0)), JobState::kRunning);
  world.Exit(ElementId(array, 0), 0);
  const Effects effects = world.Turn();
  ASSERT_NE(DeadlineWorld::Ended(effects, array), nullptr);
  EXPECT_EQ(DeadlineWorld::Ended(effects, array)->reason, "1 of 3 elements succeeded, 2 failed");
}

TEST(Deadlines, AChangedDeadlineTakesEffect) {
  DeadlineWorld world(1);
  world.Submit(1);
  const JobId job = world.Late(minutes(10), hours(1));
  world.Turn();
  JobChanges changes;
  changes.end_by = world.now_ + hours(5);
  ASSERT_TRUE(world.controller_.Update(job, changes, world.ada_, world.now_, World::NoHistory()));
  world.now_ += hours(2);
  world.Turn();
  EXPECT_EQ(world.StateOf(job), JobState::kQueued);
  changes.end_by = world.now_ + minutes(5);
  EXPECT_FALSE(world.controller_.Update(job, changes, world.ada_, world.now_, World::NoHistory()));
  changes.end_by = kNoTime;
  ASSERT_TRUE(world.controller_.Update(job, changes, world.ada_, world.now_, World::NoHistory()));
  world.now_ += hours(10);
  world.Turn();
  EXPECT_EQ(world.StateOf(job), JobState::kQueued);
}

// Deadlines survive a restart.
TEST(Deadlines, AreKeptAcrossARestart) {
  DeadlineWorld world(1);
  world.Submit(1);
  const JobId job = world.Late(minutes(10), hours(1));
  const JobRecord waiting = *world.controller_.Find(job);
  DeadlineWorld again(1);
  again.controller_.Load(World::Stored({waiting}), {}, job.value() + 1, 2, World::NoHistory());
  again.controller_.SetCapacity(NodeCapacity());
  again.Turn();
  EXPECT_EQ(again.StateOf(job), JobState::kQueued);
  again.now_ += minutes(51);
  EXPECT_EQ(World::EndOf(again.Turn(), job), JobState::kTimedOut);
}

}  // namespace controller_deadlines_test
}  // namespace divvy
