// Preemption of running jobs, and learned run times.
#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_preemption_test {

using namespace std::chrono_literals;

Policy Preempting() {
  Policy policy;
  policy.preemption.preempts = true;
  policy.preemption.grace = 20s;
  return policy;
}

JobId SubmitWith(World& world, int gpus, int priority, Preemptible preemptible, bool is_foreground = false,
                 const std::string& team = "") {
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "job";
  spec.request.gpus = gpus;
  spec.priority = priority;
  spec.preemptible = preemptible;
  spec.is_preemptible_set = true;
  spec.is_foreground = is_foreground;
  spec.team = team;
  Caller admin = world.ada_;
  admin.is_admin = true;
  const auto result = world.controller_.Submit(std::move(spec), 0, admin, world.now_, World::NoHistory());
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->id : JobId();
}

std::vector<JobId> Stopped(const Effects& effects) {
  std::vector<JobId> jobs;
  for (const NodeCommand& command : effects.commands) {
    if (const auto* stop = std::get_if<StopCommand>(&command)) jobs.push_back(stop->job);
  }
  return jobs;
}

TEST(Preemption, AJobOfHigherPriorityPreemptsAPreemptibleJob) {
  World world(2, Preempting());
  const JobId low = SubmitWith(world, 2, 0, Preemptible::kRequeue);
  world.Turn();
  const Time queued = world.controller_.Find(low)->queued_at;
  world.now_ += 10s;
  const JobId high = SubmitWith(world, 2, 5, Preemptible::kNever);
  const Effects taken = world.Turn();
  ASSERT_EQ(Stopped(taken), std::vector<JobId>{low});
  EXPECT_EQ(std::get<StopCommand>(taken.commands.front()).grace, 20s);
  EXPECT_EQ(world.controller_.Find(low)->reason, "makes room for job 2 of ada");
  EXPECT_EQ(world.StateOf(low), JobState::kStopping);
  EXPECT_EQ(world.StateOf(high), JobState::kQueued);

  world.now_ += 5s;
  world.Exit(low, 0);
  const Effects given = world.Turn();
  EXPECT_EQ(World::Launched(given), std::vector<JobId>{high});
  ASSERT_EQ(given.batch.past_runs.size(), 1u) << "what it had counts in reports";
  EXPECT_EQ(given.batch.past_runs[0].id, low);
  EXPECT_EQ(given.batch.past_runs[0].state, JobState::kCancelled);
  EXPECT_EQ(given.batch.past_runs[0].gpus.size(), 2);
  EXPECT_EQ(given.batch.past_runs[0].ended - given.batch.past_runs[0].started, 15s);
  const JobRecord& again = *world.controller_.Find(low);
  EXPECT_EQ(again.waits_since, world.now_) << "and it has not waited while it ran";
  EXPECT_EQ(again.state, JobState::kQueued);
  EXPECT_EQ(again.queued_at, queued) << "it keeps its place";
  EXPECT_EQ(again.restarts, 1u);

  world.Exit(high, 0);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{low});
}

TEST(Preemption, NoMoreJobsArePreemptedForAJobThatIsAlreadyServed) {
  World world(4, Preempting());
  for (int i = 0; i < 4; ++i) SubmitWith(world, 1, 0, Preemptible::kRequeue);
  world.Turn();
  world.now_ += 1s;
  SubmitWith(world, 2, 5, Preemptible::kNever);
  EXPECT_EQ(Stopped(world.Turn()).size(), 2u);
  for (int i = 0; i < 5; ++i) {
    world.now_ += 1s;
    SubmitWith(world, 1, 0, Preemptible::kRequeue);
    EXPECT_TRUE(Stopped(world.Turn()).empty());
  }
}

TEST(Preemption, JobsThatAreNotPreemptibleAreLeftAlone) {
  World world(3, Preempting());
  SubmitWith(world, 1, 0, Preemptible::kNever);
  SubmitWith(world, 1, 0, Preemptible::kRequeue, true);  // It has a terminal.
  SubmitWith(world, 1, 5, Preemptible::kRequeue);        // It has the preemptor's priority.
  world.Turn();
  world.now_ += 1s;
  SubmitWith(world, 1, 5, Preemptible::kNever);
  EXPECT_TRUE(Stopped(world.Turn()).empty());
}

TEST(Preemption, JobsThatRanBeforeARestartCanBePreempted) {
  Policy policy = Preempting();
  policy.preemptible = Preemptible::kRequeue;
  World before(4, policy);
  std::vector<JobRecord> live;
  const JobId own = SubmitWith(before, 1, 0, Preemptible::kRequeue);
  const JobId never = SubmitWith(before, 1, 0, Preemptible::kNever);
  const JobId terminal = SubmitWith(before, 1, 0, Preemptible::kRequeue, true);
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;  // It is preemptible because the configuration says so.
  const auto usual = before.controller_.Submit(spec, 0, before.ada_, before.now_, World::NoHistory());
  ASSERT_TRUE(usual);
  before.Turn();
  for (const JobId job : {own, never, terminal, usual->id}) live.push_back(*before.controller_.Find(job));

  World again(4, policy);
  again.now_ = before.now_ + 1min;
  again.controller_.Load(World::Stored(live), {}, 10, 2, World::NoHistory());
  again.Turn();
  SubmitWith(again, 2, 5, Preemptible::kNever);
  std::vector<JobId> stopped = Stopped(again.Turn());
  std::ranges::sort(stopped);
  EXPECT_EQ(stopped, (std::vector<JobId>{own, usual->id}));
}

TEST(Preemption, IsOffByDefault) {
  World world(1);
  SubmitWith(world, 1, 0, Preemptible::kRequeue);
  world.Turn();
  SubmitWith(world, 1, 5, Preemptible::kNever);
  EXPECT_TRUE(Stopped(world.Turn()).empty());
}

TEST(Preemption, WaitBeforeEndsByTheClockAlone) {
  Policy policy = Preempting();
  policy.preemption.wait_before = 1min;
  World world(1, policy);
  const JobId low = SubmitWith(world, 1, 0, Preemptible::kRequeue);
  world.Turn();
  SubmitWith(world, 1, 5, Preemptible::kNever);
  EXPECT_TRUE(Stopped(world.Turn()).empty());
  EXPECT_LE(world.controller_.next_wakeup(), world.now_ + 1min);
  world.now_ += 1min;
  EXPECT_EQ(Stopped(world.Turn()), std::vector<JobId>{low});
}

TEST(Preemption, ACancelledVictimIsNotRequeued) {
  World world(1, Preempting());
  const JobId low = SubmitWith(world, 1, 0, Preemptible::kRequeue);
  world.Turn();
  SubmitWith(world, 1, 5, Preemptible::kNever);
  world.Turn();
  ASSERT_TRUE(world.controller_.Cancel(low, 0, Duration(-1), "", world.ada_, world.now_));
  world.Exit(low, 0);
  EXPECT_EQ(World::EndOf(world.Turn(), low), JobState::kCancelled);
}

TEST(Shortest, StartsTheJobWhoseEarlierRunsWereShort) {
  Policy policy;
  policy.order = QueuePolicy::kShortest;
  World world(1, policy);
  const auto submit = [&](const std::string& name) {
    JobSpec spec;
    spec.command = {name};
    spec.name = name;
    spec.request.gpus = 1;
    return world.controller_.Submit(std::move(spec), 0, world.ada_, world.now_, World::NoHistory()).value().id;
  };
  for (const auto& [name, length] : {std::pair("long", 120min), std::pair("short", 1min)}) {
    for (int i = 0; i < 3; ++i) {
      const JobId job = submit(name);
      world.Turn();
      world.now_ += length;
      world.Exit(job, 0);
      world.Turn();
    }
  }
  const JobId first = submit("long");
  world.Turn();
  const JobId slow = submit("long");
  const JobId quick = submit("short");
  world.Turn();
  EXPECT_NE(Explain(world.controller_.scheduler(), quick, world.now_).key.find("for 1 min by prediction"),
            std::string::npos)
      << Explain(world.controller_.scheduler(), quick, world.now_).key;
  world.Exit(first, 0);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{quick});
  EXPECT_EQ(world.StateOf(slow), JobState::kQueued);
}

TEST(Predictions, GiveAnEstimateButNoReservation) {
  World world(1);
  const auto submit = [&] { return world.Submit(1); };
  for (int i = 0; i < 3; ++i) {
    const JobId job = submit();
    world.Turn();
    world.now_ += 1h;
    world.Exit(job, 0);
    world.Turn();
  }
  submit();
  world.Turn();
  const JobId next = submit();
  world.Turn();
  const core::Explanation why =
      Explain(world.controller_.scheduler(), next, world.now_, world.controller_.run_spread());
  EXPECT_EQ(why.start.typical, world.now_ + 1h) << why.start.basis;
  EXPECT_TRUE(world.controller_.scheduler().WouldDecide(world.now_).reservations.empty());
}

TEST(Predictions, AreUpdatedForWaitingJobsWhenMoreIsKnown) {
  World world(1);
  const JobId first = world.Submit(1);
  world.Turn();
  const JobId waiting = world.Submit(1);
  const JobId other = world.Submit(1);
  world.Turn();
  EXPECT_EQ(world.controller_.scheduler().waiting(other)->predicted, Duration(0));
  world.controller_.OnStarted(first, 1, world.now_);
  world.now_ += 10min;
  world.Exit(first, 0);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{waiting});
  EXPECT_EQ(world.controller_.scheduler().waiting(other)->predicted, Duration(10min));
}

TEST(Predictions, AnotherCommandIsAnotherJobClass) {
  World world(1);
  world.Submit(1);
  world.Turn();
  const JobId waiting = world.Submit(1);
  world.Turn();
  JobSpec spec;
  spec.command = {"python", "train.py"};
  spec.name = "job";
  spec.request.gpus = 1;
  JobChanges changes;
  changes.spec = std::make_shared<const JobSpec>(spec);
  changes.spec_fields = {"command"};
  ASSERT_TRUE(world.controller_.Update(waiting, changes, world.ada_, world.now_, World::NoHistory()));
  EXPECT_EQ(world.controller_.Find(waiting)->shape, ShapeOf(spec.command));
}

TEST(Predictions, ARestartKnowsTheJobClassOfAWaitingJob) {
  World world(1);
  JobSpec spec;
  spec.command = {"python", "train.py"};
  spec.request.gpus = 1;
  const auto job = world.controller_.Submit(std::move(spec), 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(job);
  EXPECT_EQ(world.controller_.Find(job->id)->shape, ShapeOf({"python", "train.py"}));
}

}  // namespace controller_preemption_test
}  // namespace divvy
