// Jobs with whole GPUs that are parked so that others can have their GPUs, and return.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/keeper_move_test_world.h"
#include "platform/os/process_tree.h"

namespace divvy::keeper {
namespace displacement_test {

/// Job 1 has GPU 0 whole, with 2 GiB of data.
struct Displaced : KeeperWorld {
  explicit Displaced(int gpus = 2) : KeeperWorld(gpus, true) {
    folder = Add(Whole(1, 0)).folder;
    process = std::make_unique<FakeProcess>(folder);
    EXPECT_TRUE(Eventually([&] { return process->is_up(); }));
    EXPECT_TRUE(process->Allocate(2 * kGiB));
    EXPECT_TRUE(Eventually([&] { return node->StateOf(1).unparkable.empty(); }));
  }
  static wire::KeeperAdd Whole(std::uint64_t job, int gpu) {
    wire::KeeperAdd terms = Terms(job, gpu, 1, 16 * kGiB, 16 * kGiB);
    terms.is_whole = true;
    return terms;
  }
  static wire::KeeperRequest DisplaceRequest(std::uint64_t job) {
    wire::KeeperRequest request;
    request.displace = wire::KeeperDisplace{JobId(job), 1};
    return request;
  }
  static wire::KeeperRequest ReturnRequest(std::uint64_t job, std::vector<int> to) {
    wire::KeeperRequest request;
    request.back = wire::KeeperReturn{JobId(job), 1, std::move(to)};
    return request;
  }
  std::string Displace(std::uint64_t job = 1) const { return node->Ask(DisplaceRequest(job)); }
  std::string Return(std::vector<int> to) const { return node->Ask(ReturnRequest(1, std::move(to))); }
  bool IsAway() const {
    const wire::KeptTenant tenant = node->StateOf(1);
    return tenant.is_displaced && tenant.state == wire::ShareState::kParked && process->is_emptied;
  }
  bool IsOn(int gpu) const {
    const wire::KeptTenant tenant = node->StateOf(1);
    return !tenant.is_displaced && !process->is_emptied && process->Gate() == share::kOpen &&
           tenant.shares.at(0).gpu == gpu;
  }

  std::string folder;
  std::unique_ptr<FakeProcess> process;
};

TEST(Displacement, AJobWithWholeGpusIsNeitherLimitedNorMoved) {
  Displaced world;
  EXPECT_EQ(world.process->Gate(), share::kOpen);
  EXPECT_TRUE(world.process->Allocate(20 * kGiB)) << "the driver alone refuses";
  EXPECT_EQ(world.process->page->devices[0].shown_total, 0U) << "it sees the driver's figures";
  EXPECT_NE(world.Command(1, "move", {1}), "");
  EXPECT_NE(world.Command(1, "park"), "");
  wire::KeeperRequest take;
  take.take_whole = wire::KeeperAcquireExclusive{JobId(50), GpuSet::Of({0})};
  EXPECT_EQ(world.node->Ask(take), "job 1 stays on GPU 0: it has the whole GPU");
  EXPECT_TRUE(world.IsOn(0));
}

TEST(Displacement, AnotherJobHasTheGpuUntilTheDisplacedOneReturnsToIt) {
  Displaced world(1);
  ASSERT_EQ(world.Displace(), "");
  EXPECT_TRUE(world.IsAway());
  EXPECT_EQ(world.driver_state(), 2);
  const wire::KeeperAdded added = world.Add(Displaced::Whole(2, 0));
  EXPECT_EQ(added.gpus, std::vector<int>{0});
  EXPECT_EQ(added.reachable, GpuSet::Of({0}));
  // It waits: the GPU has one owner.
  const std::uint64_t back = world.node->Send(Displaced::ReturnRequest(1, {0}));
  EXPECT_FALSE(world.node->AnswerTo(back, 1s));
  EXPECT_TRUE(world.process->is_emptied);
  EXPECT_FALSE(world.node->StateOf(1).is_displaced);
  EXPECT_EQ(world.Command(2, "remove"), "");
  const auto answer = world.node->AnswerTo(back);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "");
  EXPECT_TRUE(world.IsOn(0));
  EXPECT_EQ(world.driver_state(), 0);
}

TEST(Displacement, AJobReturnsToAnotherGpuOfItsNode) {
  Displaced world;
  ASSERT_EQ(world.Displace(), "");
  world.Add(Displaced::Whole(2, 0));
  EXPECT_EQ(world.Return({1}), "");
  EXPECT_TRUE(world.IsOn(1));
  EXPECT_EQ(world.FileText("maps"), UuidOf(0) + "=" + UuidOf(1) + "\n");
  EXPECT_EQ(world.Return({1}), "") << "it is there already";
  EXPECT_NE(world.Return({0}), "") << "it is not parked";
  EXPECT_TRUE(world.IsOn(1));
}

TEST(Displacement, ARepeatedRequestChangesNothing) {
  Displaced world;
  ASSERT_EQ(world.Displace(), "");
  EXPECT_EQ(world.Displace(), "");
  world.Add(Displaced::Whole(1, 0));
  EXPECT_TRUE(world.IsAway()) << "a node that connects again names its tenants";
  EXPECT_EQ(world.process->evacuations, 1);
}

TEST(Displacement, OnlyAReturnWakesADisplacedJob) {
  Displaced world;
  ASSERT_EQ(world.Displace(), "");
  world.process->Say(share::Word::kWake);
  world.process->Say(share::Word::kPin, 0, 0, 9);
  world.process->Say(share::Word::kWant, 0, kGiB, 10);
  EXPECT_NE(world.Command(1, "wake"), "");
  // Whatever the process says is handled before this answer.
  EXPECT_TRUE(world.IsAway());
  wire::KeeperRequest take;
  take.take_whole = wire::KeeperAcquireExclusive{JobId(50), GpuSet::Of({0, 1})};
  EXPECT_EQ(world.node->Ask(take), "");
  EXPECT_TRUE(world.IsAway());
}

TEST(Displacement, AJobThatCannotBeParkedKeepsItsGpuAndSaysWhy) {
  Displaced world;
  world.process->fails_evacuations = 1;
  const std::string why = "process " + std::to_string(::getpid()) + ": told to fail";
  EXPECT_EQ(world.Displace(), why);
  EXPECT_TRUE(Eventually([&] { return world.IsOn(0); }));
  EXPECT_EQ(world.node->StateOf(1).displacement_failure, why);
  EXPECT_NE(world.node->StateOf(1).unparkable, "") << "it is not tried again at once";
  wire::KeeperRequest add;
  add.add = Displaced::Whole(2, 0);
  EXPECT_NE(world.node->Ask(add), "") << "its GPU is not given to others";
}

TEST(Displacement, WithoutRoomInHostMemoryNothingMoves) {
  Displaced world;
  world.SetHostMemory(7);  // 6.4 GiB are reserved, and 2 GiB are needed.
  const std::string why = world.Displace();
  EXPECT_NE(why.find("job 1 cannot be parked: its 2"), std::string::npos) << why;
  EXPECT_NE(why.find("do not fit in the host's memory"), std::string::npos) << why;
  EXPECT_EQ(world.process->evacuations, 0);
  EXPECT_TRUE(world.IsOn(0));
  world.SetHostMemory(32);
  EXPECT_EQ(world.Displace(), "");
  EXPECT_TRUE(world.IsAway());
}

TEST(Displacement, AJobThatUsesNcclCannotBeParked) {
  Displaced world;
  __atomic_fetch_or(&world.process->page->processes[world.process->slot].flags, share::kCollectives, __ATOMIC_ACQ_REL);
  EXPECT_EQ(world.Displace(), "job 1 cannot be parked: uses NCCL");
  EXPECT_EQ(world.node->StateOf(1).unparkable, "uses NCCL");
}

TEST(Displacement, AFailedReturnLeavesTheJobDisplaced) {
  Displaced world;
  ASSERT_EQ(world.Displace(), "");
  world.FailDriver("restore", 1);
  EXPECT_NE(world.Return({1}), "");
  EXPECT_TRUE(world.IsAway());
  EXPECT_NE(world.node->StateOf(1).displacement_failure, "");
  EXPECT_EQ(world.Return({0}), "") << "at once, when the node asks again";
  EXPECT_TRUE(world.IsOn(0));
  EXPECT_EQ(world.node->StateOf(1).displacement_failure, "");
}

// The node stops a displaced job's processes, and continues them when it asks for the return.
TEST(Displacement, AReturnWaitsForProcessesThatAreJustBeingContinued) {
  KeeperWorld world(1, true);
  const std::string folder = world.Add(Displaced::Whole(1, 0)).folder;
  const pid_t job = ::fork();
  if (job == 0) {
    const FakeProcess process(folder);
    for (;;) ::pause();
  }
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  ASSERT_TRUE(Eventually([&] { return world.node->Ask(Displaced::DisplaceRequest(1)).empty(); }));
  ::kill(job, SIGSTOP);
  ASSERT_TRUE(Eventually([&] {
    const auto stat = ReadProcessStat(job);
    return stat && stat->state == 'T';
  }));
  const std::uint64_t back = world.node->Send(Displaced::ReturnRequest(1, {0}));
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).state == wire::ShareState::kWaking; }));
  ::kill(job, SIGCONT);
  const auto answer = world.node->AnswerTo(back);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "");
  ::kill(job, SIGKILL);
  ::waitpid(job, nullptr, 0);
}

TEST(Displacement, ADisplacedJobThatEndsIsForgotten) {
  Displaced world;
  ASSERT_EQ(world.Displace(), "");
  EXPECT_EQ(world.Command(1, "remove"), "");
  EXPECT_TRUE(world.node->State().tenants.empty());
  EXPECT_EQ(world.FileText("1.1.tenant"), "");
  world.Add(Displaced::Whole(2, 0));
}

// --- A killed keeper ------------------------------------------------------------------------------------------------

TEST(Displacement, ANewKeeperLeavesADisplacedJobWhereItIs) {
  Displaced world;
  ASSERT_EQ(world.Displace(), "");
  world.Add(Displaced::Whole(2, 0));
  world.Kill();
  world.Start();
  EXPECT_TRUE(world.IsAway());
  world.process->Say(share::Word::kWake);
  world.Add(Displaced::Whole(1, 0));
  EXPECT_TRUE(world.IsAway()) << "another job has its GPU";
  EXPECT_EQ(world.node->StateOf(2).shares.at(0).gpu, 0);
  EXPECT_EQ(world.Return({1}), "");
  EXPECT_TRUE(world.IsOn(1));
}

TEST(Displacement, AKeeperKilledWhileAJobLeavesKeepsItOnItsGpu) {
  Displaced world;
  world.process->first_part = kGiB;
  world.node->Send(Displaced::DisplaceRequest(1));
  ASSERT_TRUE(Eventually([&] { return world.process->has_begun_to_leave.load(); }));
  world.Kill();
  world.Start();
  wire::KeeperRequest add;
  add.add = Displaced::Whole(2, 0);
  EXPECT_NE(world.node->Ask(add), "") << "nobody knows that it has left";
  world.process->first_part = 0;
  EXPECT_TRUE(Eventually([&] { return world.IsOn(0); }));
  EXPECT_EQ(world.process->away[0], 0U);
  EXPECT_TRUE(Eventually([&] { return world.Displace().empty(); })) << "the node repeats it";
  EXPECT_TRUE(world.IsAway());
}

TEST(Displacement, AKeeperKilledWhileAJobWaitsToReturnBringsItBack) {
  Displaced world;
  ASSERT_EQ(world.Displace(), "");
  world.Add(Displaced::Whole(2, 1));
  const std::uint64_t back = world.node->Send(Displaced::ReturnRequest(1, {1}));
  EXPECT_FALSE(world.node->AnswerTo(back, 500ms));
  world.Kill();
  world.Start();
  EXPECT_FALSE(world.node->StateOf(1).is_displaced);
  EXPECT_TRUE(world.process->is_emptied);
  wire::KeeperRequest add;
  add.add = Displaced::Whole(3, 1);
  EXPECT_NE(world.node->Ask(add), "") << "it is promised to job 1, and job 2 has it";
  EXPECT_EQ(world.Command(2, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return world.IsOn(1); }));
}

TEST(Displacement, AKeeperKilledWhileAJobReturnsBringsItToItsNewGpu) {
  Displaced world;
  world.process->mutes_when_emptied = true;
  ASSERT_EQ(world.Displace(), "");
  world.node->Send(Displaced::ReturnRequest(1, {1}));
  ASSERT_TRUE(Eventually([&] { return world.driver_state() == 0; })) << "the library has not answered";
  world.Kill();
  // The library answers the next keeper. It would never answer an order that arrives before this.
  world.process->mutes_when_emptied = false;
  world.process->is_mute = false;
  world.Start();
  wire::KeeperRequest add;
  add.add = Displaced::Whole(2, 1);
  EXPECT_NE(world.node->Ask(add), "") << "job 1 is on its way to it";
  world.Add(Displaced::Whole(3, 0));
  EXPECT_TRUE(Eventually([&] { return world.IsOn(1); }));
  EXPECT_EQ(world.node->StateOf(3).shares.at(0).gpu, 0);
}

}  // namespace displacement_test
}  // namespace divvy::keeper
