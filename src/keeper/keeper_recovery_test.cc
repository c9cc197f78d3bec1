#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "keeper/keeper_move_test_world.h"

namespace divvy::keeper {
namespace keeper_recovery_test {

// --- A damaged tenant ------------------------------------------------------------------------------------------------

/// A failed move whose process reached neither the GPU nor the host, so its memory is undefined.
struct Damaged : Moved {
  Damaged() {
    process->fails_returns = 1;
    process->breaks = true;
    why = Command(1, "move", {1 - at});
  }
  std::string AcquireExclusive(int gpu) {
    wire::KeeperRequest request;
    request.take_whole.emplace().job = JobId(50);
    request.take_whole->gpus.Insert(static_cast<GpuIndex>(gpu));
    return node->Ask(request);
  }
  std::string why;
};

TEST(KeeperLoss, ALostTenantsCallsFailAndOthersContinue) {
  Damaged world;
  EXPECT_NE(world.why.find("its memory was damaged"), std::string::npos) << world.why;
  EXPECT_EQ(world.process->Gate(), share::kLost) << "a shut gate would hold its processes for ever";
  EXPECT_NE(world.node->StateOf(1).trouble.find("its memory was damaged"), std::string::npos);
  EXPECT_NE(world.AcquireExclusive(world.at).find("it was damaged"), std::string::npos);
  FakeProcess other(world.Add(KeeperWorld::Terms(2, world.at, 0.5, 4 * kGiB, 4 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return other.is_up(); }));
  EXPECT_TRUE(other.Allocate(4 * kGiB));
  std::atomic<bool> is_over{false};
  std::thread worker([&] { other.Work(1ms, is_over); });
  EXPECT_TRUE(Eventually([&] { return other.worked > 50'000'000; }));
  is_over = true;
  worker.join();
}

TEST(KeeperLoss, AfterItsProcessesEndTheGpuIsFreeAndNewProcessesAreServed) {
  KeeperWorld world(2, true);
  const std::string folder = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
  const pid_t child = ::fork();
  if (child == 0) {
    auto* process = new FakeProcess(folder);
    process->fails_returns = 1;
    process->breaks = true;
    if (!Eventually([&] { return process->is_up(); }) || !process->Allocate(2 * kGiB)) ::_exit(1);
    for (;;) ::pause();
  }
  ASSERT_TRUE(Eventually([&] {
    const wire::KeptTenant tenant = world.node->StateOf(1);
    return tenant.is_movable && tenant.shares.at(0).used >= Bytes(2 * kGiB);
  }));
  const int at = world.node->StateOf(1).shares.at(0).gpu;
  EXPECT_NE(world.Command(1, "move", {1 - at}).find("its memory was damaged"), std::string::npos);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(at));
  EXPECT_TRUE(Eventually([&] { return world.node->Ask(request).empty(); }));
  FakeProcess next(folder);
  ASSERT_TRUE(Eventually([&] { return next.is_up(); }));
  EXPECT_TRUE(Eventually([&] { return next.Gate() == share::kOpen; }));
  EXPECT_TRUE(next.Allocate(4 * kGiB));
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, 1 - at);
  EXPECT_EQ(world.node->StateOf(1).trouble, "");
}

TEST(KeeperLoss, TheNextKeeperRemembersTheLoss) {
  Damaged world;
  world.Kill();
  world.Start();
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_EQ(world.process->Gate(), share::kLost);
  world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  EXPECT_EQ(world.process->Gate(), share::kLost);
  EXPECT_NE(world.AcquireExclusive(world.at).find("it was damaged"), std::string::npos);
}

// --- A keeper whose directory is gone --------------------------------------------------------------------------------

TEST(KeeperAbandoned, WithoutItsDirectoryItOpensTheGatesAndEnds) {
  KeeperWorld world(1, true);
  std::vector<std::unique_ptr<FakeProcess>> processes;
  for (std::uint64_t job = 1; job <= 3; ++job) {
    processes.push_back(
        std::make_unique<FakeProcess>(world.Add(KeeperWorld::Terms(job, 0, 0.3, 4 * kGiB, 4 * kGiB)).folder));
    ASSERT_TRUE(Eventually([&] { return processes.back()->is_up(); }));
    ASSERT_TRUE(processes.back()->Allocate(kGiB));
  }
  ASSERT_EQ(world.Command(3, "park"), "");
  ASSERT_EQ(processes[2]->Gate(), share::kParked);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> workers;
  for (int i = 0; i < 2; ++i) workers.emplace_back([&, i] { processes[i]->Work(1ms, is_over); });
  EXPECT_TRUE(Eventually([&] { return processes[0]->worked > 0 && processes[1]->worked > 0; }));
  const std::string away = world.directory + ".away";
  std::filesystem::rename(world.directory, away);
  EXPECT_TRUE(Eventually([&] { return world.has_ended.load(); }));
  EXPECT_FALSE(processes[2]->is_emptied) << "nobody could bring it back later";
  for (const auto& process : processes) EXPECT_EQ(process->Gate(), share::kOpen);
  is_over = true;
  for (std::thread& worker : workers) worker.join();
  std::filesystem::rename(away, world.directory);
}

TEST(KeeperAbandoned, IfAnotherKeeperServesItsDirectoryItEndsAsIfKilled) {
  Moved world;
  ASSERT_EQ(world.Command(1, "park"), "");
  std::filesystem::remove(world.directory + "/keeper.sock");
  EXPECT_TRUE(Eventually([&] { return world.has_ended.load(); }));
  EXPECT_EQ(world.process->Gate(), share::kParked);
  world.Kill();
  world.Start();
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_EQ(world.Command(1, "wake"), "");
  EXPECT_FALSE(world.process->is_emptied);
}

// --- A keeper that ends, and its successor ---------------------------------------------------------------------------

TEST(KeeperRecovery, TenantsContinueWithTheirMemory) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
  FakeProcess process(folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  ASSERT_TRUE(process.Allocate(3 * kGiB));
  const std::uint32_t slot = process.slot;
  world.Kill();
  // Its gate stays as it was, so it continues to run.
  EXPECT_EQ(process.Gate(), share::kOpen);
  world.Start();
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_EQ(process.slot, slot);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(3 * kGiB));
  EXPECT_TRUE(Eventually([&] { return process.Gate() == share::kOpen; }));
  EXPECT_TRUE(process.Allocate(kGiB));
  EXPECT_FALSE(process.Allocate(kGiB));
  // The node repeats its request, which changes nothing.
  const wire::KeeperAdded again = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  EXPECT_EQ(again.folder, folder);
  EXPECT_EQ(process.slot, slot);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(4 * kGiB));
}

TEST(KeeperRecovery, AParkedTenantStaysParkedAndReturns) {
  Moved world;
  ASSERT_EQ(world.Command(1, "park"), "");
  world.process->stays_away = true;
  world.Kill();
  world.Start();
  // The node repeats its request before the tenant's processes have dialled.
  world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  world.process->stays_away = false;
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_EQ(world.node->StateOf(1).state, wire::ShareState::kParked);
  EXPECT_EQ(world.process->Gate(), share::kParked);
  EXPECT_EQ(world.Command(1, "wake"), "");
  EXPECT_FALSE(world.process->is_emptied);
  EXPECT_EQ(world.driver_state(), 0);
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
}

TEST(KeeperRecovery, AnInterruptedMoveIsCompleted) {
  // A process that does not answer stops the move on its way down, before or after the driver's part.
  for (const bool is_way_up : {false, true}) {
    Moved world;
    wire::KeeperRequest request;
    request.move = wire::KeeperMove{JobId(1), {1 - world.at}};
    if (is_way_up) {
      world.process->mutes_when_emptied = true;
      world.node->Send(request);
      ASSERT_TRUE(Eventually([&] { return world.driver_state() == 0 && !world.FileText("maps").empty(); }));
    } else {
      world.process->is_mute = true;
      world.node->Send(request);
      ASSERT_TRUE(Eventually([&] { return world.process->Gate() == share::kMoving; }));
    }
    world.Kill();
    world.process->is_mute = false;
    world.Start();
    EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; })) << is_way_up;
    EXPECT_EQ(world.driver_state(), 0);
    EXPECT_FALSE(world.process->is_emptied);
    EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, is_way_up ? 1 - world.at : world.at);
    EXPECT_EQ(world.process->page->devices[0].uuid, UuidOf(is_way_up ? 1 - world.at : world.at));
  }
}

/// The driver has moved the process to the other GPU, but its library has not restored the memory yet.
struct OnItsWayUp : Moved {
  OnItsWayUp() {
    process->mutes_when_emptied = true;
    wire::KeeperRequest request;
    request.move = wire::KeeperMove{JobId(1), {1 - at}};
    node->Send(request);
    EXPECT_TRUE(Eventually([&] { return driver_state() == 0 && !FileText("maps").empty(); }));
  }
};

TEST(KeeperRecovery, ARepeatedAddOpensNoGateBeforeTheMemoryIsBack) {
  OnItsWayUp world;
  world.process->stays_away = true;
  world.Kill();
  world.process->is_mute = false;
  world.Start();
  world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  EXPECT_EQ(world.process->Gate(), share::kMoving);
  world.process->stays_away = false;
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  EXPECT_FALSE(world.process->is_emptied);
}

// A keeper knows about parked memory only from its predecessors' records.
TEST(KeeperRecovery, ParkedMemoryCountsForEveryLaterKeeper) {
  Moved world;
  ASSERT_EQ(world.Command(1, "park"), "");
  world.process->is_mute = true;  // It does not answer the order to return.
  world.Kill();
  world.Start();
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  wire::KeeperRequest request;
  request.wake.emplace().job = JobId(1);
  world.node->Send(request);
  ASSERT_TRUE(Eventually([&] { return world.process->Gate() == share::kMoving && world.driver_state() == 0; }));
  world.Kill();
  world.process->is_mute = false;
  world.process->fails_returns = 1;
  world.Start();
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; })) << world.node->StateOf(1).trouble;
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(2 * kGiB));
}

TEST(KeeperRecovery, MemoryThatCouldNotReturnYetStillCounts) {
  OnItsWayUp world;
  world.process->mutes_when_emptied = false;
  world.Kill();
  world.process->is_mute = false;
  world.process->fails_returns = 1;
  world.Start();
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; })) << world.node->StateOf(1).trouble;
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(2 * kGiB));
}

TEST(KeeperRecovery, AProcessThatHasNotReconnectedIsNotLeftOnTheHost) {
  Moved world;
  FakeProcess second(world.folder);
  ASSERT_TRUE(Eventually([&] { return second.is_up(); }));
  ASSERT_EQ(world.Command(1, "park"), "");
  second.stays_away = true;
  world.Kill();
  world.Start();
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  wire::KeeperRequest request;
  request.wake.emplace().job = JobId(1);
  const auto answer = world.node->AnswerTo(world.node->Send(request), 10s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "a process of the job runs without a connection to the keeper");
  EXPECT_EQ(second.Gate(), share::kParked);
  second.stays_away = false;
  EXPECT_TRUE(Eventually([&] { return second.Gate() == share::kOpen; }));
  EXPECT_FALSE(second.is_emptied);
  EXPECT_FALSE(world.process->is_emptied);
}

// Memory taken while the gate was closing may be missing in the record.
TEST(KeeperRecovery, AProcessThatNeedsMoreThanRecordedReportsItAndReturns) {
  Moved world;
  ASSERT_EQ(world.Command(1, "park"), "");
  world.Kill();
  world.process->away[0] += kGiB;
  world.Start();
  EXPECT_EQ(world.Command(1, "wake"), "process " + std::to_string(::getpid()) + ": the ceiling is lower");
  EXPECT_EQ(world.Command(1, "wake"), "");
  EXPECT_EQ(world.process->Gate(), share::kOpen);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(3 * kGiB));
}

}  // namespace keeper_recovery_test
}  // namespace divvy::keeper
