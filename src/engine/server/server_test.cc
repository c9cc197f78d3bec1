#include "engine/server/server.h"

#include <gtest/gtest.h>

#include "engine/core/state.h"
#include "engine/server/test_world.h"

namespace divvy {
namespace {

TEST(Server, AnArrayOfAMillionIsOneEntry) {
  World world;
  world.Node(8);
  WaitingEntry entry = World::Job(1, 1);
  entry.count = 1'000'000;
  world.Submit(entry);
  EXPECT_EQ(world.Pass().size(), 8u);
  EXPECT_EQ(world.server.waiting_count(), 999'992u);
  EXPECT_EQ(world.server.waiting(JobId(1))->count, 999'992u);
}

TEST(Server, PuttingAnEntryAgainReplacesIt) {
  World world;
  world.Node(4);
  world.Submit(World::Job(1, 1));
  WaitingEntry changed = World::Job(1, 3);
  changed.priority = 7;
  changed.count = 2;
  world.Submit(changed);
  EXPECT_EQ(world.server.waiting_count(), 2u);
  EXPECT_EQ(world.server.waiting(JobId(1))->request.gpus, 3);
}

TEST(Server, AGpuHasItsOwnerUntilTheJobEnds) {
  World world;
  world.Node(2);
  world.Submit(World::Job(1, 1));
  world.Pass();
  EXPECT_EQ(world.server.owner(0), JobId(1));
  EXPECT_EQ(world.server.owner(1), std::nullopt);
  world.server.SetAvailability(0, {.is_restricted = true, .fault = "", .unmanaged = ""});
  EXPECT_EQ(world.server.owner(0), JobId(1));
  EXPECT_EQ(world.server.free(), GpuSet::Of({1}));
  world.server.Finish(JobId(1));
  EXPECT_EQ(world.server.owner(0), std::nullopt);
  EXPECT_EQ(world.server.free(), GpuSet::Of({1}));
  world.Check();
}

TEST(Server, ACapIsForgottenWithTheLastThatRefersToIt) {
  World world;
  world.Node(2);
  world.server.SetGroupLimit("array 1", 1);
  WaitingEntry entry = World::Job(1, 1);
  entry.groups = {"array 1", "array 1"};
  world.Submit(entry);
  world.Pass();
  EXPECT_EQ(world.server.group_running("array 1"), 1);
  world.server.SetGroupLimit("array 1", 0);
  EXPECT_EQ(world.server.group_running("array 1"), 1);
  world.server.Finish(JobId(1));
  EXPECT_EQ(world.server.group_running("array 1"), 0);
  world.Check();
}

TEST(Server, GpusThatAppearLaterServeWhoAlreadyWaits) {
  World world;
  world.Node(1);
  world.Submit(World::Job(1, 2));
  EXPECT_TRUE(world.Pass().empty());
  world.Node(2);
  world.Check();
  EXPECT_EQ(world.Pass().size(), 1u);
}

TEST(Server, WakesForABeginTimeAndForAnEscalation) {
  World world;
  world.Node(1);
  world.Submit(World::Job(1, 1));
  world.Pass();
  // It would have escalated, had it still waited.
  world.now += world.policy.escalate_after;
  world.Pass();
  EXPECT_EQ(world.WouldDecide().next_wakeup, kNever);
  world.Submit(World::Job(2, 1));
  EXPECT_EQ(world.WouldDecide().next_wakeup, world.now + world.policy.escalate_after);
  WaitingEntry later = World::Job(3, 1);
  later.begin = world.now + std::chrono::minutes(5);
  world.Submit(later);
  EXPECT_EQ(world.WouldDecide().next_wakeup, later.begin);
}

TEST(Server, AsksOfWhatDoesNotWaitAreAnswered) {
  World world;
  world.Node(1);
  EXPECT_FALSE(Explain(world.server, JobId(9), world.now).is_waiting);
  EXPECT_TRUE(QueueOrder(world.server, world.now, 10).empty());
}

TEST(Server, TheQueueIsCutWhereAsked) {
  World world;
  world.Node(1);
  for (std::uint64_t id = 1; id <= 5; ++id) world.Submit(World::Job(id, id % 2 == 0 ? 1 : 2));
  EXPECT_EQ(QueueOrder(world.server, world.now, 3), (std::vector<JobId>{JobId(2), JobId(4), JobId(1)}));
}

core::TeamSpec Team(const std::string& name, std::int64_t quota_gpus) {
  core::TeamSpec team;
  team.name = name;
  team.quota_milli = quota_gpus * placement::kGpuMilli;
  return team;
}

WaitingEntry Of(const std::string& team, std::uint64_t id, int gpus) {
  WaitingEntry entry = World::Job(id, gpus);
  entry.team = team;
  entry.preemptible = Preemptible::kRequeue;
  return entry;
}

TEST(Server, FairServesTheTeamThatHasLess) {
  World world;
  world.Node(4);
  world.policy.order = QueuePolicy::kFair;
  world.server.SetTeams({Team("vision", 2), Team("speech", 2)}, world.now);
  for (std::uint64_t id = 1; id <= 4; ++id) world.Submit(Of("vision", id, 1));
  for (std::uint64_t id = 5; id <= 8; ++id) world.Submit(Of("speech", id, 1));
  int speech = 0;
  for (const World::Started& started : world.Pass()) speech += started.entry >= JobId(5) ? 1 : 0;
  EXPECT_EQ(speech, 2);
  const Explanation why = Explain(world.server, JobId(4), world.now);
  EXPECT_TRUE(why.key.starts_with("team vision runs 2 GPUs of a share of 2 GPUs")) << why.key;
}

TEST(Server, ATeamBelowItsShareTakesFromOneAboveIts) {
  World world;
  world.Node(4);
  world.policy.taking_back.reclaims = true;
  world.server.SetTeams({Team("vision", 2), Team("speech", 2)}, world.now);
  for (std::uint64_t id = 1; id <= 4; ++id) world.Submit(Of("vision", id, 1));
  world.Pass();
  world.now += std::chrono::minutes(1);
  world.Submit(Of("speech", 5, 2));
  EXPECT_TRUE(world.Pass().empty());
  ASSERT_EQ(world.last_plan.takings.size(), 2u);
  for (const Taking& taking : world.last_plan.takings) {
    EXPECT_EQ(taking.taker, JobId(5));
    EXPECT_TRUE(world.server.running(taking.job)->is_leaving);
  }
  const std::vector<Taking> takings = world.last_plan.takings;
  for (const Taking& taking : takings) world.server.Finish(taking.job);
  ASSERT_EQ(world.Pass().size(), 1u);
  EXPECT_TRUE(world.last_plan.takings.empty());
}

TEST(Server, TeamsMayChangeWhileJobsWaitAndRun) {
  World world;
  world.Node(2);
  world.server.SetTeams({Team("vision", 1)}, world.now);
  for (std::uint64_t id = 1; id <= 3; ++id) world.Submit(Of("vision", id, 1));
  world.Pass();
  world.server.SetTeams({Team("speech", 1), Team("vision", 2)}, world.now);
  world.Check();
  EXPECT_EQ(world.server.teams().running(world.server.TeamOf("vision")), 2 * placement::kGpuMilli);
  EXPECT_EQ(world.server.teams().running(world.server.TeamOf("speech")), 0);
  EXPECT_EQ(world.server.TeamOf("nobody"), core::kRootTeam);
}

TEST(Server, ABookingIsKeptForItsUser) {
  World world;
  world.Node(2);
  const Time from = world.now + std::chrono::minutes(10);
  const auto booking = world.server.Book(2, "", "grace", from, from + std::chrono::hours(1), world.now);
  ASSERT_TRUE(booking);
  world.Submit(World::Job(1, 1, std::chrono::hours(1)));
  world.Submit(World::Job(2, 1, std::chrono::minutes(5)));
  const auto started = world.Pass();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].entry, JobId(2));
  EXPECT_EQ(Explain(world.server, JobId(1), world.now).blockers.front().kind, BlockerKind::kReservation);
  world.server.Unbook(*booking);
  EXPECT_EQ(world.Pass().size(), 1u);
}

TEST(Server, ForgetsKindsOfJobsThatNobodyIsOfAnyMore) {
  World world;
  world.Node(1);
  world.server.Put(World::Job(1, 1, std::chrono::hours(1)));
  world.Pass();
  for (std::uint64_t id = 2; id < 10'000; ++id) {
    world.server.Put(World::Job(id, 1, std::chrono::seconds(static_cast<std::int64_t>(id))));
    world.server.Remove(JobId(id));
  }
  EXPECT_LT(world.server.core().state().classes.size(), 6'000u);
  EXPECT_EQ(world.server.running(JobId(1))->gpus, GpuSet::Of({0}));
  world.Check();
}

TEST(Server, SaysWhatAPolicyCompares) {
  World world;
  world.Node(1);
  world.policy.order = QueuePolicy::kShortest;
  world.Submit(World::Job(1, 1));
  world.Pass();
  WaitingEntry next = World::Job(2, 1);
  next.predicted = std::chrono::minutes(20);
  world.Submit(next);
  world.Pass();
  EXPECT_EQ(Explain(world.server, JobId(2), world.now).key, "priority 0, 1 GPU for 20 min by prediction, waiting 0 s");
}

TEST(Server, AJobThatIsResizedKeepsItsStartItsEndAndItsTeam) {
  World world;
  world.Node(4);
  core::TeamSpec team;
  team.name = "vision";
  world.server.SetTeams({team}, world.now);
  WaitingEntry entry = World::Job(1, 2, std::chrono::hours(2));
  entry.request.gpus_most = 4;
  entry.request.cpus = 8;
  entry.team = "vision";
  world.Submit(entry);
  world.Pass();
  const Time started = world.now;
  world.server.SetResizable(JobId(1));
  world.now += std::chrono::minutes(10);
  world.server.Resize(JobId(1), GpuSet::Of({1, 3}));
  world.Check();
  EXPECT_EQ(world.server.free(), GpuSet::Of({0, 2}));
  const core::Run& run = *world.server.core().running(JobId(1));
  EXPECT_EQ(run.started, started);
  EXPECT_EQ(run.end, started + std::chrono::hours(2));
  EXPECT_EQ(run.queued_at, started);
  EXPECT_EQ(world.server.teams().running(world.server.TeamOf("vision")), 2000);
  EXPECT_EQ(world.server.core().state_of(0).cpu_free, 56'000);
  // Nobody waits for the others: they are its own again.
  world.Pass();
  ASSERT_EQ(world.last_plan.resizings.size(), 1u);
  EXPECT_EQ(world.server.running(JobId(1))->gpus.size(), 4);
  EXPECT_EQ(world.server.running(JobId(1))->grown_at, world.now);
}

}  // namespace
}  // namespace divvy
