#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "keeper/keeper_move_test_world.h"

namespace divvy::keeper {
namespace keeper_moves_test {

TEST(KeeperMoves, ATenantIsMovedWithItsData) {
  Moved world;
  const int to = 1 - world.at;
  EXPECT_EQ(world.Command(1, "move", {to}), "");
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, to);
  EXPECT_EQ(world.process->evacuations, 1);
  EXPECT_EQ(world.process->returns, 1);
  EXPECT_EQ(world.driver_state(), 0);
  EXPECT_EQ(world.FileText("maps"), UuidOf(world.at) + "=" + UuidOf(to) + "\n");
  EXPECT_EQ(world.process->page->devices[0].uuid, UuidOf(to));
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  EXPECT_EQ(world.node->State().moves, 1u);
}

// A program may read its data for minutes before it uses CUDA. If its tenant moves before any process connects, it must
// find its new GPU in the page.
TEST(KeeperMoves, ATenantWithoutProcessesStartsOnTheGpuThatItMovedTo) {
  KeeperWorld world(2, true);
  const wire::KeeperAdded added = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  const int at = world.node->StateOf(1).shares.at(0).gpu;
  ASSERT_EQ(world.Command(1, "move", {1 - at}), "");
  ASSERT_EQ(world.node->StateOf(1).shares.at(0).gpu, 1 - at);
  FakeProcess process(added.folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  EXPECT_EQ(process.page->devices[0].uuid, UuidOf(1 - at));
  EXPECT_EQ(process.page->devices[0].gpu, static_cast<std::uint32_t>(1 - at));
  // Then back, with a process.
  ASSERT_EQ(world.Command(1, "move", {at}), "");
  EXPECT_EQ(process.page->devices[0].uuid, UuidOf(at));
}

TEST(KeeperMoves, ATenantThatCannotLeaveStaysAndSaysWhy) {
  Moved world;
  world.process->fails_evacuations = 1;
  EXPECT_EQ(world.Command(1, "move", {1 - world.at}), "process " + std::to_string(::getpid()) + ": told to fail");
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, world.at);
  EXPECT_FALSE(world.process->is_emptied);
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
}

TEST(KeeperMoves, AMoveThatTheDriverRefusesIsUndone) {
  Moved world;
  world.FailDriver("checkpoint", 1);
  EXPECT_EQ(world.Command(1, "park"), "process " + std::to_string(::getpid()) + ": told to fail");
  EXPECT_EQ(world.driver_state(), 0);
  EXPECT_FALSE(world.process->is_emptied);
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  EXPECT_NE(world.node->StateOf(1).trouble, "");
}

TEST(KeeperMoves, AFailedMoveLeavesTheTenantOnTheHostAndItReturns) {
  Moved world;
  world.FailDriver("restore", 1);
  EXPECT_NE(world.Command(1, "move", {1 - world.at}), "");
  // The planner wakes it by itself, wherever there is room.
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen && !world.process->is_emptied; }));
  EXPECT_EQ(world.driver_state(), 0);
}

/// Makes the record unwritable until this object is destroyed.
struct BrokenRecord {
  explicit BrokenRecord(const KeeperWorld& world) : path(world.directory + "/1.1.tenant") {
    std::filesystem::remove(path);
    std::filesystem::create_directories(path + "/in the way");
  }
  ~BrokenRecord() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST(KeeperMoves, WithoutARecordNoMoveStarts) {
  Moved world;
  {
    const BrokenRecord broken(world);
    EXPECT_NE(world.Command(1, "park").find("1.1.tenant"), std::string::npos);
    EXPECT_EQ(world.process->evacuations, 0);
    EXPECT_EQ(world.driver_state(), 0);
    EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  }
  // The failed write is repeated later.
  EXPECT_TRUE(Eventually([&] { return !world.FileText("1.1.tenant").empty(); }));
}

TEST(KeeperMoves, WithoutARecordNoTenantReturnsElsewhere) {
  Moved world;
  ASSERT_EQ(world.Command(1, "park"), "");
  {
    const BrokenRecord broken(world);
    EXPECT_NE(world.Command(1, "wake").find("1.1.tenant"), std::string::npos);
    EXPECT_EQ(world.driver_state(), 2);
    EXPECT_EQ(world.process->Gate(), share::kParked);
  }
  EXPECT_EQ(world.Command(1, "wake"), "");
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
}

TEST(KeeperMoves, AParkedTenantReturnsWithItsNextCall) {
  Moved world;
  EXPECT_EQ(world.Command(1, "park"), "");
  EXPECT_EQ(world.driver_state(), 2);
  EXPECT_TRUE(world.process->is_emptied);
  EXPECT_EQ(world.process->Gate(), share::kParked);
  EXPECT_EQ(world.node->StateOf(1).state, wire::ShareState::kParked);
  world.process->Say(share::Word::kWake);
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  EXPECT_FALSE(world.process->is_emptied);
  EXPECT_EQ(world.driver_state(), 0);
}

// A tenant above its request waits for idle memory; the command does not wait with it.
TEST(KeeperMoves, ATenantThatCannotReturnIsToldWhatItWaitsFor) {
  KeeperWorld world(1, true);
  FakeProcess borrower(world.Add(KeeperWorld::Terms(1, 0, 0.25, 4 * kGiB, 12 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return borrower.is_up() && world.node->StateOf(1).is_movable; }));
  ASSERT_TRUE(borrower.Allocate(10 * kGiB));
  ASSERT_EQ(world.Command(1, "park"), "");
  FakeProcess owner(world.Add(KeeperWorld::Terms(2, 0, 0.5, 10 * kGiB, 10 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return owner.is_up(); }));
  ASSERT_TRUE(owner.Allocate(9 * kGiB));
  std::atomic<bool> is_over{false};
  std::thread worker([&] { owner.Work(1ms, is_over); });
  ASSERT_TRUE(Eventually([&] { return owner.worked > 0; }));
  const std::string why = world.Command(1, "wake");
  EXPECT_NE(why.find("job 1 waits for room on a GPU; it returns automatically"), std::string::npos) << why;
  EXPECT_TRUE(borrower.is_emptied);
  is_over = true;
  worker.join();
  EXPECT_EQ(world.Command(2, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return !borrower.is_emptied && borrower.Gate() == share::kOpen; }));
}

/// One tenant borrows 8 GiB of a 16 GiB GPU, evacuates 4 GiB of it and then pauses until told to continue. The other
/// has a request of 8 GiB and asks for all of it.
class Repaid : public KeeperWorld {
 public:
  Repaid() : KeeperWorld(1, true), borrower(Add(Terms(1, 0, 0.25, 4 * kGiB, 12 * kGiB)).folder) {
    EXPECT_TRUE(Eventually([&] { return borrower.is_up() && node->StateOf(1).is_movable; }));
    EXPECT_TRUE(borrower.Allocate(12 * kGiB));
    borrower.first_part = 4 * kGiB;
    owner = std::make_unique<FakeProcess>(Add(Terms(2, 0, 0.5, 8 * kGiB, 8 * kGiB)).folder);
    EXPECT_TRUE(Eventually([&] { return owner->is_up(); }));
  }

  FakeProcess borrower;
  std::unique_ptr<FakeProcess> owner;
};

TEST(KeeperMoves, AnOwnerUsesMemoryThatIsFreedBeforeTheBorrowerHasLeftCompletely) {
  Repaid world;
  EXPECT_TRUE(world.owner->Allocate(8 * kGiB)) << "while the borrower has as much left on the GPU";
  EXPECT_EQ(world.node->StateOf(1).state, wire::ShareState::kParking);
  EXPECT_FALSE(world.borrower.is_emptied);
  world.borrower.first_part = 0;
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).state == wire::ShareState::kParked; }));
  EXPECT_EQ(world.borrower.away[0], static_cast<std::uint64_t>(12 * kGiB));
}

TEST(KeeperMoves, MemoryAlreadyGivenToOthersIsNotTakenBackForAFailedMove) {
  Repaid world;
  world.borrower.fails_half_way = true;
  EXPECT_TRUE(world.owner->Allocate(8 * kGiB));
  world.borrower.first_part = 0;
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).state == wire::ShareState::kParked; })) << "as a whole";
  EXPECT_EQ(world.borrower.away[0], static_cast<std::uint64_t>(12 * kGiB));
  EXPECT_EQ(world.owner->page->processes[world.owner->slot].used[0], static_cast<std::uint64_t>(8 * kGiB));
}

TEST(KeeperMoves, AKeeperKilledDuringAPartialMoveGivesNoMemoryTwice) {
  Repaid world;
  EXPECT_TRUE(world.owner->Allocate(8 * kGiB));
  world.Kill();
  world.Start();
  world.borrower.first_part = 0;
  EXPECT_EQ(world.Hello(), "");
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).state == wire::ShareState::kParked; }));
  EXPECT_EQ(world.borrower.away[0], static_cast<std::uint64_t>(12 * kGiB));
  EXPECT_TRUE(Eventually([&] {
    return world.owner->page->processes[world.owner->slot].used[0] == static_cast<std::uint64_t>(8 * kGiB);
  })) << "once the owner has connected to the new keeper";
  EXPECT_EQ(world.Command(2, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return world.borrower.away[0] == 0 && world.borrower.Gate() == share::kOpen; }));
}

// Several operations may happen between two state reports.
TEST(KeeperMoves, MovesBetweenTwoReportsAreRecorded) {
  Moved world;
  ASSERT_EQ(world.Command(1, "move", {1 - world.at}), "");
  ASSERT_EQ(world.Command(1, "move", {world.at}), "");
  ASSERT_EQ(world.Command(1, "park"), "");
  const std::vector<wire::KeptPassage> passages = world.node->StateOf(1).passages;
  ASSERT_EQ(passages.size(), 3U);
  EXPECT_EQ(passages[0].gpus, std::vector{1 - world.at});
  EXPECT_EQ(passages[1].gpus, std::vector{world.at});
  EXPECT_TRUE(passages[0].at < passages[1].at && passages[1].at < passages[2].at);
  EXPECT_TRUE(passages[2].is_parked);
  EXPECT_EQ(passages[2].words.front(), "parked on the host: on request");
}

// It could not connect before, and works on the GPU that its tenant has left.
TEST(KeeperMoves, AProcessThatConnectsWhileItsTenantIsParkedJoinsIt) {
  Moved world;
  EXPECT_EQ(world.Command(1, "park"), "");
  const pid_t late = ::fork();
  if (late == 0) {
    const FakeProcess process(world.folder);
    for (;;) ::pause();
  }
  const auto is_taken = [&] { return __atomic_load_n(&world.process->page->processes[1].is_taken, __ATOMIC_ACQUIRE); };
  ASSERT_TRUE(Eventually([&] { return is_taken() == 1; }));
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(world.at));
  ASSERT_EQ(world.node->Ask(request), "");
  EXPECT_EQ(world.Command(1, "wake"), "");
  const int to = 1 - world.at;
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, to);
  const std::string map = UuidOf(world.at) + "=" + UuidOf(to) + "\n";
  EXPECT_EQ(world.FileText("maps"), map + map);
  EXPECT_EQ(world.FileText("driver." + std::to_string(late)), "0\n");
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  ::kill(late, SIGKILL);
  ::waitpid(late, nullptr, 0);
}

TEST(KeeperMoves, AnIdleTenantIsParkedAutomatically) {
  KeeperWorld world(1, true);
  wire::KeeperAdd terms = KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB);
  terms.idle_park = 300ms;
  FakeProcess process(world.Add(terms).folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  ASSERT_TRUE(process.Allocate(kGiB));
  EXPECT_TRUE(Eventually([&] { return process.Gate() == share::kParked; }));
  std::atomic<bool> is_over{false};
  std::thread worker([&] { process.Work(1ms, is_over); });
  EXPECT_TRUE(Eventually([&] { return process.worked > 1'000'000'000; }));
  EXPECT_EQ(world.node->StateOf(1).state, wire::ShareState::kRunning);
  is_over = true;
  worker.join();
}

TEST(KeeperMoves, AWholeGpuJobFindsItsGpuEmpty) {
  Moved world;
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(world.at));
  EXPECT_EQ(world.node->Ask(request), "");
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, 1 - world.at);
  EXPECT_EQ(world.process->returns, 1);
}

TEST(KeeperMoves, AWholeGpuJobIsToldWhichTenantsLeaveAndTheTimeBound) {
  Moved world;
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(1 - world.at));
  auto answer = world.node->AnswerTo(world.node->Send(request));
  ASSERT_TRUE(answer && answer->room);
  EXPECT_EQ(answer->room->bound, Duration(0)) << "nobody was there";
  request.take_whole.reset();
  request.give_whole.emplace().job = JobId(50);
  EXPECT_EQ(world.node->Ask(request), "");
  request.give_whole.reset();
  request.take_whole.emplace().job = JobId(51);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(world.at));
  answer = world.node->AnswerTo(world.node->Send(request));
  ASSERT_TRUE(answer && answer->room);
  EXPECT_GT(answer->room->bound, world.rules.slack);
  EXPECT_LT(answer->room->took, answer->room->bound);
  EXPECT_TRUE(world.node->State().waits.empty());
  // Next, a process that ignores all orders.
  request.take_whole.reset();
  request.give_whole.emplace().job = JobId(51);
  EXPECT_EQ(world.node->Ask(request), "");
  world.process->is_mute = true;
  request.give_whole.reset();
  request.take_whole.emplace().job = JobId(52);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(1 - world.at));
  world.node->Send(request);
  std::vector<wire::KeptWait> waits;
  ASSERT_TRUE(Eventually([&] { return !(waits = world.node->State().waits).empty(); }));
  EXPECT_EQ(waits[0].job, JobId(52));
  EXPECT_GT(waits[0].bound, world.rules.slack);
  EXPECT_EQ(waits[0].why.find("job 1 is leaving GPU " + std::to_string(1 - world.at) + ", which takes "), 0u)
      << waits[0].why;
}

TEST(KeeperMoves, AWholeGpuJobThatEndedUnseenFreesItsGpu) {
  Moved world;
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(1 - world.at));
  EXPECT_EQ(world.node->Ask(request), "");
  EXPECT_EQ(world.Hello({JobId(50)}), "");
  EXPECT_NE(world.Command(1, "move", {1 - world.at}).find("is allocated to job 50"), std::string::npos);
  EXPECT_EQ(world.Hello({JobId(51)}), "");
  EXPECT_EQ(world.Command(1, "move", {1 - world.at}), "");
}

TEST(KeeperMoves, NoTenantIsMovedToALostGpu) {
  Moved world;
  ASSERT_EQ(world.at, 0) << "the one that stays";
  world.SetGpus(1);
  EXPECT_EQ(world.Hello(), "");
  EXPECT_EQ(world.Command(1, "move", {1}), "GPU 1 cannot be used: it is no longer there");
}

TEST(KeeperMoves, NoTenantIsParkedOnAHostWithoutRoom) {
  Moved world;
  world.SetHostMemory(8);
  EXPECT_TRUE(Eventually([&] {
    return world.node->StateOf(1).unmovable == "its 2 GiB do not fit in the host's memory";
  })) << world.node->StateOf(1).unmovable;
  EXPECT_NE(world.Command(1, "park").find("do not fit in the host's memory"), std::string::npos);
  EXPECT_NE(world.Command(1, "move", {1 - world.at}).find("do not fit in the host's memory"), std::string::npos);
  EXPECT_EQ(world.process->evacuations, 0);
  world.SetHostMemory(9);
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).is_movable; }));
  EXPECT_EQ(world.Command(1, "park"), "");
  // It wakes even if that room is gone.
  world.SetHostMemory(0);
  EXPECT_EQ(world.Command(1, "wake"), "");
}

TEST(KeeperMoves, ATenantAboutToBePinnedIsMovedToItsPlannedGpuFirst) {
  Moved world;
  // Move it away from its planned GPU.
  const int planned_gpu = 0;
  ASSERT_EQ(world.Command(1, "move", {1 - planned_gpu}), "");
  ASSERT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  EXPECT_TRUE(world.process->Ask(share::Word::kPin, share::kIpc));
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, planned_gpu);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).paper, planned_gpu);
}

TEST(KeeperMoves, AWholeGpuJobIsToldWhichTenantsStay) {
  Moved world;
  world.process->page->processes[world.process->slot].flags = share::kCollectives;
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).unmovable == "uses NCCL"; }));
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(world.at));
  EXPECT_NE(world.node->Ask(request).find("uses NCCL"), std::string::npos);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, world.at);
}

// --- GPUs that are withheld from tenants -----------------------------------------------------------------------------

/// Reports a GPU as withheld.
std::string Withhold(KeeperWorld& world, int gpu, const std::string& why) {
  wire::KeeperRequest request;
  request.gpus.emplace();
  for (int i = 0; i < 2; ++i) {
    wire::KeeperGpu& said = request.gpus->gpus.emplace_back();
    said.index = static_cast<GpuIndex>(i);
    said.uuid = UuidOf(i);
    said.memory = Bytes(16 * kGiB);
    said.is_withheld = i == gpu;
    if (said.is_withheld) said.why = why;
  }
  return world.node->Ask(request);
}

TEST(KeeperMoves, TenantsLeaveAWithheldGpu) {
  Moved world;
  EXPECT_EQ(Withhold(world, world.at, "is restricted"), "");
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).shares.at(0).gpu == 1 - world.at; }));
  EXPECT_EQ(world.Command(1, "move", {world.at}),
            "GPU " + std::to_string(world.at) + " does not accept GPU fractions now: it is restricted");
}

TEST(KeeperMoves, ATenantThatCannotLeaveAWithheldGpuSaysWhy) {
  Moved world;
  world.process->page->processes[world.process->slot].flags = share::kCollectives;
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).unmovable == "uses NCCL"; }));
  EXPECT_EQ(Withhold(world, world.at, "is restricted"), "");
  const std::string why =
      "is on GPU " + std::to_string(world.at) + ", which is restricted, and cannot leave it: uses NCCL";
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).trouble == why; })) << world.node->StateOf(1).trouble;
}

}  // namespace keeper_moves_test
}  // namespace divvy::keeper
