#include "engine/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include "engine/core/state/state.h"
#include "engine/scheduler/test_world.h"

namespace divvy {
namespace scheduler_test {

TEST(Scheduler, AnArrayOfAMillionIsOneEntry) {
  World world;
  world.Node(8);
  WaitingEntry entry = World::Job(1, 1);
  entry.count = 1'000'000;
  world.Submit(entry);
  EXPECT_EQ(world.RunCycle().size(), 8u);
  EXPECT_EQ(world.scheduler.waiting_count(), 999'992u);
  EXPECT_EQ(world.scheduler.waiting(JobId(1))->count, 999'992u);
}

TEST(Scheduler, SubmittingAnEntryAgainReplacesIt) {
  World world;
  world.Node(4);
  world.Submit(World::Job(1, 1));
  WaitingEntry changed = World::Job(1, 3);
  changed.priority = 7;
  changed.count = 2;
  world.Submit(changed);
  EXPECT_EQ(world.scheduler.waiting_count(), 2u);
  EXPECT_EQ(world.scheduler.waiting(JobId(1))->request.gpus, 3);
}

TEST(Scheduler, AGpuHasItsOwnerUntilTheJobEnds) {
  World world;
  world.Node(2);
  world.Submit(World::Job(1, 1));
  world.RunCycle();
  EXPECT_EQ(world.scheduler.holders(kOwnNode, 0), std::vector{JobId(1)});
  EXPECT_EQ(world.scheduler.holders(kOwnNode, 1), std::vector<JobId>());
  world.scheduler.SetAvailability(kOwnNode, 0, {.is_restricted = true, .fault = "", .unmanaged = ""});
  EXPECT_EQ(world.scheduler.holders(kOwnNode, 0), std::vector{JobId(1)});
  EXPECT_EQ(world.scheduler.free(), GpuSet::Of({1}));
  world.scheduler.Finish(JobId(1));
  EXPECT_EQ(world.scheduler.holders(kOwnNode, 0), std::vector<JobId>());
  EXPECT_EQ(world.scheduler.free(), GpuSet::Of({1}));
  world.Check();
}

TEST(Scheduler, ACapIsForgottenWithTheLastJobThatUsesIt) {
  World world;
  world.Node(2);
  world.scheduler.SetGroupLimit("array 1", 1);
  WaitingEntry entry = World::Job(1, 1);
  entry.groups = {"array 1", "array 1"};
  world.Submit(entry);
  world.RunCycle();
  EXPECT_EQ(world.scheduler.group_running("array 1"), 1);
  world.scheduler.SetGroupLimit("array 1", 0);
  EXPECT_EQ(world.scheduler.group_running("array 1"), 1);
  world.scheduler.Finish(JobId(1));
  EXPECT_EQ(world.scheduler.group_running("array 1"), 0);
  world.Check();
}

TEST(Scheduler, NewGpusServeJobsThatAlreadyWait) {
  World world;
  world.Node(1);
  world.Submit(World::Job(1, 2));
  EXPECT_TRUE(world.RunCycle().empty());
  world.Node(2);
  world.Check();
  EXPECT_EQ(world.RunCycle().size(), 1u);
}

TEST(Scheduler, WakesForABeginTimeAndForAnEscalation) {
  World world;
  world.Node(1);
  world.Submit(World::Job(1, 1));
  world.RunCycle();
  // The job would have escalated now if it still waited.
  world.now += world.policy.escalate_after;
  world.RunCycle();
  EXPECT_EQ(world.WouldDecide().next_wakeup, kNever);
  world.Submit(World::Job(2, 1));
  EXPECT_EQ(world.WouldDecide().next_wakeup, world.now + world.policy.escalate_after);
  WaitingEntry later = World::Job(3, 1);
  later.begin = world.now + std::chrono::minutes(5);
  world.Submit(later);
  EXPECT_EQ(world.WouldDecide().next_wakeup, later.begin);
}

TEST(Scheduler, QueriesAboutUnknownJobsAreAnswered) {
  World world;
  world.Node(1);
  EXPECT_FALSE(Explain(world.scheduler, JobId(9), world.now).is_waiting);
  EXPECT_TRUE(QueueOrder(world.scheduler, world.now, 10).empty());
}

TEST(Scheduler, TheQueueListIsCutAtTheRequestedLength) {
  World world;
  world.Node(1);
  for (std::uint64_t id = 1; id <= 5; ++id) world.Submit(World::Job(id, id % 2 == 0 ? 1 : 2));
  EXPECT_EQ(QueueOrder(world.scheduler, world.now, 3), (std::vector<JobId>{JobId(2), JobId(4), JobId(1)}));
}

TEST(Scheduler, AGpuCapCountsRunningJobsAndSurvivesACapacityChange) {
  World world;
  world.Node(4);
  world.scheduler.SetGroupGpuLimit("user ada", 3);
  for (std::uint64_t id = 1; id <= 2; ++id) {
    WaitingEntry entry = World::Job(id, 2);
    entry.groups = {"user ada"};
    world.Submit(entry);
  }
  EXPECT_EQ(world.RunCycle().size(), 1u);
  EXPECT_EQ(world.scheduler.group_gpus("user ada"), 2);
  const core::Explanation why = Explain(world.scheduler, JobId(2), world.now);
  ASSERT_EQ(why.blockers.size(), 1u);
  EXPECT_EQ(why.blockers[0].kind, core::BlockerKind::kGpuCap);
  EXPECT_EQ(why.blockers[0].needed, 2 * placement::kGpuParts);
  EXPECT_EQ(why.blockers[0].available, placement::kGpuParts);
  EXPECT_EQ(why.change_text(), "--gpus 1 (GPU 2 is free)");
  // The core is rebuilt.
  world.Node(8);
  EXPECT_TRUE(world.RunCycle().empty());
  world.scheduler.SetGroupGpuLimit("user ada", 0);
  EXPECT_EQ(world.RunCycle().size(), 1u);
  world.scheduler.Finish(JobId(1));
  world.scheduler.Finish(JobId(2));
  EXPECT_EQ(world.scheduler.group_gpus("user ada"), 0);
}

core::TeamSpec Team(const std::string& name, std::int64_t quota_gpus) {
  core::TeamSpec team;
  team.name = name;
  team.quota_parts = quota_gpus * placement::kGpuParts;
  return team;
}

WaitingEntry Of(const std::string& team, std::uint64_t id, int gpus) {
  WaitingEntry entry = World::Job(id, gpus);
  entry.team = team;
  entry.preemptible = Preemptible::kRequeue;
  return entry;
}

TEST(Scheduler, FairServesTheTeamWithLessUsage) {
  World world;
  world.Node(4);
  world.policy.order = QueuePolicy::kFair;
  world.scheduler.SetTeams({Team("vision", 2), Team("speech", 2)}, world.now);
  for (std::uint64_t id = 1; id <= 4; ++id) world.Submit(Of("vision", id, 1));
  for (std::uint64_t id = 5; id <= 8; ++id) world.Submit(Of("speech", id, 1));
  int speech = 0;
  for (const World::Started& started : world.RunCycle()) speech += started.entry >= JobId(5) ? 1 : 0;
  EXPECT_EQ(speech, 2);
  const core::Explanation why = Explain(world.scheduler, JobId(4), world.now);
  EXPECT_TRUE(why.key.starts_with("team vision runs 2 GPUs of a share of 2 GPUs")) << why.key;
}

TEST(Scheduler, ATeamBelowItsShareReclaimsFromATeamAboveIt) {
  World world;
  world.Node(4);
  world.policy.preemption.reclaims = true;
  world.scheduler.SetTeams({Team("vision", 2), Team("speech", 2)}, world.now);
  for (std::uint64_t id = 1; id <= 4; ++id) world.Submit(Of("vision", id, 1));
  world.RunCycle();
  world.now += std::chrono::minutes(1);
  world.Submit(Of("speech", 5, 2));
  EXPECT_TRUE(world.RunCycle().empty());
  ASSERT_EQ(world.last_plan.preemptions.size(), 2u);
  for (const Preemption& preemption : world.last_plan.preemptions) {
    EXPECT_EQ(preemption.preemptor, JobId(5));
    EXPECT_TRUE(world.scheduler.running(preemption.job)->is_leaving);
  }
  const std::vector<Preemption> preemptions = world.last_plan.preemptions;
  for (const Preemption& preemption : preemptions) world.scheduler.Finish(preemption.job);
  ASSERT_EQ(world.RunCycle().size(), 1u);
  EXPECT_TRUE(world.last_plan.preemptions.empty());
}

TEST(Scheduler, AnElasticJobStartsWithinItsTeamsLimitAndFirmQuota) {
  World world;
  world.Node(8);
  core::TeamSpec limited = Team("vision", 8);
  limited.limit_parts = 5 * placement::kGpuParts;
  world.scheduler.SetTeams({limited, Team("speech", 3)}, world.now);
  WaitingEntry elastic = Of("vision", 1, 2);
  elastic.request.max_gpus = 8;
  world.Submit(elastic);
  ASSERT_EQ(world.RunCycle().size(), 1u);
  EXPECT_EQ(world.scheduler.running(JobId(1))->gpus.size(), 5);
  world.scheduler.Finish(JobId(1));
  WaitingEntry firm = Of("speech", 2, 2);
  firm.request.max_gpus = 8;
  firm.preemptible = Preemptible::kNever;
  world.Submit(firm);
  ASSERT_EQ(world.RunCycle().size(), 1u);
  EXPECT_EQ(world.scheduler.running(JobId(2))->gpus.size(), 3);
}

TEST(Scheduler, TeamsMayChangeWhileJobsWaitAndRun) {
  World world;
  world.Node(2);
  world.scheduler.SetTeams({Team("vision", 1)}, world.now);
  for (std::uint64_t id = 1; id <= 3; ++id) world.Submit(Of("vision", id, 1));
  world.RunCycle();
  world.scheduler.SetTeams({Team("speech", 1), Team("vision", 2)}, world.now);
  world.Check();
  EXPECT_EQ(world.scheduler.teams().running(world.scheduler.TeamOf("vision")), 2 * placement::kGpuParts);
  EXPECT_EQ(world.scheduler.teams().running(world.scheduler.TeamOf("speech")), 0);
  EXPECT_EQ(world.scheduler.TeamOf("nobody"), core::kRootTeam);
}

TEST(Scheduler, AnAdvanceReservationIsKeptForItsUser) {
  World world;
  world.Node(2);
  const Time from = world.now + std::chrono::minutes(10);
  const auto advance = world.scheduler.Reserve(2, "", "grace", from, from + std::chrono::hours(1), world.now);
  ASSERT_TRUE(advance);
  world.Submit(World::Job(1, 1, std::chrono::hours(1)));
  world.Submit(World::Job(2, 1, std::chrono::minutes(5)));
  const auto started = world.RunCycle();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].entry, JobId(2));
  EXPECT_EQ(Explain(world.scheduler, JobId(1), world.now).blockers.front().kind, core::BlockerKind::kReservation);
  world.scheduler.CancelReservation(*advance);
  EXPECT_EQ(world.RunCycle().size(), 1u);
}

TEST(Scheduler, ForgetsJobClassesThatNoJobUses) {
  World world;
  world.Node(1);
  world.scheduler.Put(World::Job(1, 1, std::chrono::hours(1)));
  world.RunCycle();
  for (std::uint64_t id = 2; id < 10'000; ++id) {
    world.scheduler.Put(World::Job(id, 1, std::chrono::seconds(static_cast<std::int64_t>(id))));
    world.scheduler.Remove(JobId(id));
  }
  EXPECT_LT(world.scheduler.core().state().classes.size(), 6'000u);
  EXPECT_EQ(world.scheduler.running(JobId(1))->gpus, GpuSet::Of({0}));
  world.Check();
}

TEST(Scheduler, NamesWhatAQueuePolicyCompares) {
  World world;
  world.Node(1);
  world.policy.order = QueuePolicy::kShortest;
  world.Submit(World::Job(1, 1));
  world.RunCycle();
  WaitingEntry next = World::Job(2, 1);
  next.predicted = std::chrono::minutes(20);
  world.Submit(next);
  world.RunCycle();
  EXPECT_EQ(Explain(world.scheduler, JobId(2), world.now).key,
            "priority 0, 1 GPU for 20 min by prediction, waiting 0 s");
}

TEST(Scheduler, AResizedJobKeepsItsStartItsEndAndItsTeam) {
  World world;
  world.Node(4);
  core::TeamSpec team;
  team.name = "vision";
  world.scheduler.SetTeams({team}, world.now);
  WaitingEntry entry = World::Job(1, 2, std::chrono::hours(2));
  entry.request.max_gpus = 4;
  entry.request.cpus = 8;
  entry.team = "vision";
  world.Submit(entry);
  world.RunCycle();
  const Time started = world.now;
  world.scheduler.SetResizable(JobId(1));
  world.now += std::chrono::minutes(10);
  world.scheduler.Resize(JobId(1), GpuSet::Of({1, 3}));
  world.Check();
  EXPECT_EQ(world.scheduler.free(), GpuSet::Of({0, 2}));
  const core::Run& run = *world.scheduler.core().running(JobId(1));
  EXPECT_EQ(run.started, started);
  EXPECT_EQ(run.end, started + std::chrono::hours(2));
  EXPECT_EQ(run.queued_at, started);
  EXPECT_EQ(world.scheduler.teams().running(world.scheduler.TeamOf("vision")), 2 * placement::kGpuParts);
  EXPECT_EQ(world.scheduler.core().state_of(0).cpu_free, 56'000);
  // No job waits for the other GPUs any more, so the job keeps them.
  world.RunCycle();
  ASSERT_EQ(world.last_plan.resizings.size(), 1u);
  EXPECT_EQ(world.scheduler.running(JobId(1))->gpus.size(), 4);
  EXPECT_EQ(world.scheduler.running(JobId(1))->grown_at, world.now);
}

NodeCapacity OldAndNew(int a100, int h100) {
  NodeCapacity capacity;
  for (int i = 0; i < a100; ++i) World::AddGpu(capacity, "NVIDIA A100-SXM4-40GB", 40_GiB);
  for (int i = 0; i < h100; ++i) World::AddGpu(capacity, "NVIDIA H100 80GB HBM3", 80_GiB);
  capacity.cpus = 64;
  capacity.memory = 512_GiB;
  return capacity;
}

TEST(Scheduler, WithSpeedsAJobGetsGpusOfOneSpeedTheFastestThatAreFree) {
  World world;
  world.scheduler.SetCapacity(OldAndNew(3, 4));
  const auto start = [&](std::uint64_t id, int gpus, const char* type) {
    WaitingEntry job = World::Job(id, gpus);
    job.request.gpu_type = type;
    world.Submit(job);
    const std::vector<World::Started> started = world.RunCycle();
    return started.empty() ? GpuSet() : started.front().gpus;
  };
  EXPECT_EQ(start(1, 2, "a100*0.55|h100*1"), GpuSet::Of({3, 4})) << "whatever stands first";
  EXPECT_EQ(start(2, 3, "h100*1|a100*0.55"), GpuSet::Of({0, 1, 2})) << "rather slow than late or mixed";
  world.scheduler.Finish(JobId(2));
  EXPECT_EQ(start(3, 4, "h100*1|a100*0.55"), GpuSet()) << "two fast ones and two slow ones are no four";
  Request request;
  request.gpus = 5;
  request.gpu_type = "h100*1|a100*0.55";
  EXPECT_EQ(CheckFeasible(world.scheduler, request).error().message,
            "asks for 5 GPUs of type NVIDIA H100 80GB HBM3, but this server has 4 of them; --gpus 4 is the maximum, or "
            "leave the speeds out of --gpu-type to take any mix");
  EXPECT_EQ(start(4, 4, "h100|a100").size(), 4) << "without speeds any mix will do";
}

// Learned speeds affect the choice of GPUs but never make a job wait.
TEST(Scheduler, LearnedSpeedsPreferTheFastestOfOneSpeedAndElseAnyMix) {
  World world;
  NodeCapacity capacity;
  for (int i = 0; i < 3; ++i) World::AddGpu(capacity, "NVIDIA A100-SXM4-80GB", 80_GiB);
  for (int i = 0; i < 3; ++i) World::AddGpu(capacity, "NVIDIA H100 80GB HBM3", 80_GiB);
  World::AddGpu(capacity, "NVIDIA L4", 24_GiB);
  capacity.cpus = 64;
  capacity.memory = 512_GiB;
  world.scheduler.SetCapacity(std::move(capacity));
  const auto start = [&](std::uint64_t id, int gpus, const std::string& type) {
    WaitingEntry job = World::Job(id, gpus);
    job.request.gpu_type = type;
    job.speeds = {{"NVIDIA H100 80GB HBM3", 1000}, {"NVIDIA A100-SXM4-80GB", 550}};
    world.Submit(job);
    world.RunCycle();
    return world.scheduler.running(JobId(id)) == nullptr ? GpuSet() : world.scheduler.running(JobId(id))->gpus;
  };
  EXPECT_EQ(start(1, 2, ""), GpuSet::Of({3, 4}));
  EXPECT_EQ(start(2, 2, "h100|a100"), GpuSet::Of({0, 1})) << "two of one speed rather than a fast and a slow one";
  EXPECT_EQ(start(3, 2, ""), GpuSet::Of({2, 5})) << "a mix rather than late";
  EXPECT_EQ(start(4, 1, ""), GpuSet::Of({6})) << "what is not known comes last";
  EXPECT_EQ(world.scheduler.CheckInvariants(), "");
}

// Two pairs of joined GPUs with one job on each: only a migration makes room for a job that needs a pair.
TEST(Scheduler, APausableJobIsMigratedForAJobThatFitsNowhere) {
  World world;
  NodeCapacity capacity;
  for (int i = 0; i < 4; ++i) World::AddGpu(capacity, "NVIDIA H100 80GB HBM3", 80_GiB);
  for (GpuFacts& gpu : capacity.gpus) {
    for (int other = 0; other < 4; ++other) {
      gpu.links.push_back(other == gpu.index ? "X" : other / 2 == gpu.index / 2 ? "NV12" : "PHB");
    }
  }
  capacity.cpus = 64;
  capacity.memory = 512_GiB;
  world.scheduler.SetCapacity(std::move(capacity));
  for (std::uint64_t id : {1, 2, 3}) {
    WaitingEntry job = World::Job(id, 1);
    job.preemptible = Preemptible::kPause;
    world.Submit(job);
  }
  world.RunCycle();
  world.scheduler.Finish(JobId(2));  // One GPU of each pair is free now.
  WaitingEntry pair = World::Job(4, 2);
  pair.request.topology = TopologyNeed::kNvlink;
  pair.request.requires_topology = true;
  world.Submit(pair);
  world.RunCycle();
  EXPECT_TRUE(world.last_plan.preemptions.empty()) << "not unless it is wanted";

  world.policy.preemption.consolidates = true;
  world.RunCycle();
  ASSERT_EQ(world.last_plan.preemptions.size(), 1u);
  const Preemption preemption = world.last_plan.preemptions.front();
  EXPECT_EQ(preemption.preemptor, JobId(4));
  EXPECT_NE(preemption.reason.find("so that job 4 fits"), std::string::npos) << preemption.reason;
  // The job ends, waits again under its id, and both jobs start in one decision.
  world.scheduler.Finish(preemption.job);
  WaitingEntry again = World::Job(preemption.job.value(), 1);
  again.preemptible = Preemptible::kPause;
  world.Submit(again);
  const std::vector<World::Started> started = world.RunCycle();
  EXPECT_EQ(started.size(), 2u);
  EXPECT_EQ(world.scheduler.free().size(), 0);
}

TEST(Scheduler, AnAdoptedJobIsMigratedOnlyToItsGpuType) {
  World world;
  world.scheduler.SetCapacity(OldAndNew(2, 2));
  world.policy.preemption.consolidates = true;
  RunningJob job;
  job.id = JobId(1);
  job.gpus = GpuSet::Of({0});
  job.request.gpus = 1;
  job.request.gpu_type = "a100";
  job.preemptible = Preemptible::kPause;
  job.started = world.now;
  world.scheduler.Adopt(job);
  WaitingEntry pair = World::Job(2, 2);
  pair.request.gpu_type = "a100";
  world.Submit(pair);
  world.RunCycle();
  EXPECT_TRUE(world.last_plan.preemptions.empty());
}

TEST(Scheduler, AnElasticJobLeavesRoomForAReservationOfItsTeam) {
  World world;
  world.Node(6);
  core::TeamSpec team;
  team.name = "vision";
  team.limit_parts = 4 * placement::kGpuParts;
  world.scheduler.SetTeams({team}, world.now);
  world.policy.order = QueuePolicy::kFifo;
  WaitingEntry other = World::Job(1, 4, std::chrono::hours(1));
  world.Submit(other);
  world.RunCycle();
  WaitingEntry first = World::Job(2, 3, std::chrono::hours(1));
  first.team = "vision";
  first.queued_at = world.now;
  world.Submit(first);
  WaitingEntry elastic = World::Job(3, 1);
  elastic.request.max_gpus = 2;
  elastic.team = "vision";
  world.now += std::chrono::minutes(1);
  world.Submit(elastic);
  const std::vector<World::Started> started = world.RunCycle();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started.front().gpus.size(), 1) << "with two the team would have no room for job 2 in an hour";
}

}  // namespace scheduler_test
}  // namespace divvy
