#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "keeper/keeper_test_world.h"

namespace divvy::keeper {
namespace {

std::string UuidOf(int gpu) { return "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(gpu); }

/// A tenant with a process that has memory, and a driver that can move it.
struct Moved : KeeperWorld {
  explicit Moved(int gpus = 2) : KeeperWorld(gpus, true) {
    folder = Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
    process = std::make_unique<FakeProcess>(folder);
    EXPECT_TRUE(Eventually([&] { return process->is_up(); }));
    EXPECT_TRUE(process->Allocate(2 * kGiB));
    EXPECT_TRUE(Eventually([&] { return node->StateOf(1).is_movable; }));
    at = node->StateOf(1).shares.at(0).gpu;
  }
  int driver_state() const {
    const std::string text = FileText("driver." + std::to_string(::getpid()));
    return text.empty() ? 0 : std::stoi(text);
  }
  std::string folder;
  std::unique_ptr<FakeProcess> process;
  int at = 0;
};

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

TEST(KeeperMoves, WhatCannotLeaveStaysAndSaysWhy) {
  Moved world;
  world.process->fails_evacuations = 1;
  EXPECT_EQ(world.Command(1, "move", {1 - world.at}), "process " + std::to_string(::getpid()) + " told to fail");
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, world.at);
  EXPECT_FALSE(world.process->is_emptied);
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
}

TEST(KeeperMoves, WhatTheDriverRefusesIsUndone) {
  Moved world;
  world.FailDriver("checkpoint", 1);
  EXPECT_EQ(world.Command(1, "park"), "process " + std::to_string(::getpid()) + ": told to fail");
  EXPECT_EQ(world.driver_state(), 0);
  EXPECT_FALSE(world.process->is_emptied);
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  EXPECT_NE(world.node->StateOf(1).trouble, "");
}

TEST(KeeperMoves, WhatDoesNotGetThereIsKeptOnTheHostWholeAndComesBack) {
  Moved world;
  world.FailDriver("restore", 1);
  EXPECT_NE(world.Command(1, "move", {1 - world.at}), "");
  // The ledger brings it back by itself, wherever there is room.
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen && !world.process->is_emptied; }));
  EXPECT_EQ(world.driver_state(), 0);
}

/// A record that cannot be written, until it goes.
struct BrokenRecord {
  explicit BrokenRecord(const KeeperWorld& world) : path(world.directory + "/1.1.tenant") {
    std::filesystem::remove(path);
    std::filesystem::create_directories(path + "/in the way");
  }
  ~BrokenRecord() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST(KeeperMoves, WithoutARecordNothingIsBegun) {
  Moved world;
  {
    const BrokenRecord broken(world);
    EXPECT_NE(world.Command(1, "park").find("1.1.tenant"), std::string::npos);
    EXPECT_EQ(world.process->evacuations, 0);
    EXPECT_EQ(world.driver_state(), 0);
    EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  }
  // And what could not be written then is written later.
  EXPECT_TRUE(Eventually([&] { return !world.FileText("1.1.tenant").empty(); }));
}

TEST(KeeperMoves, WithoutARecordNothingComesUpElsewhere) {
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

TEST(KeeperMoves, AParkedTenantComesBackWithItsNextCall) {
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

// Who has more than its request waits for what others leave idle, and its caller is not held up by it.
TEST(KeeperMoves, WhoCannotComeBackNowIsToldWhatItWaitsFor) {
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
  EXPECT_NE(why.find("job 1 waits for room on a GPU; it comes back by itself"), std::string::npos) << why;
  EXPECT_TRUE(borrower.is_emptied);
  is_over = true;
  worker.join();
  EXPECT_EQ(world.Command(2, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return !borrower.is_emptied && borrower.Gate() == share::kOpen; }));
}

// Two states that are shown may lie further apart.
TEST(KeeperMoves, WhereATenantWasMeanwhileIsTold) {
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
  EXPECT_EQ(passages[2].words.front(), "parked on the host: as asked");
}

// It could not dial before, and is at work on the GPU that its tenant has left.
TEST(KeeperMoves, AProcessThatSaysHelloWhileItsTenantIsAwayComesToWhereThatGoes) {
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

TEST(KeeperMoves, ATenantThatIsIdleParksByItself) {
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

TEST(KeeperMoves, AWholeJobFindsItsGpuEmpty) {
  Moved world;
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(world.at));
  EXPECT_EQ(world.node->Ask(request), "");
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, 1 - world.at);
  EXPECT_EQ(world.process->returns, 1);
}

TEST(KeeperMoves, AWholeJobIsToldWhoLeavesForItAndHowLongThatTakesAtMost) {
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
  // And one that does nothing of what it is told.
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
  EXPECT_EQ(waits[0].why.find("job 1 leaves GPU " + std::to_string(1 - world.at) + ", which takes "), 0u)
      << waits[0].why;
}

TEST(KeeperMoves, AWholeJobThatEndedUnseenGivesItsGpuUp) {
  Moved world;
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(1 - world.at));
  EXPECT_EQ(world.node->Ask(request), "");
  EXPECT_EQ(world.Hello({JobId(50)}), "");
  EXPECT_NE(world.Command(1, "move", {1 - world.at}).find("belongs to job 50"), std::string::npos);
  EXPECT_EQ(world.Hello({JobId(51)}), "");
  EXPECT_EQ(world.Command(1, "move", {1 - world.at}), "");
}

TEST(KeeperMoves, NobodyIsMovedToAGpuThatHasGone) {
  Moved world;
  ASSERT_EQ(world.at, 0) << "the one that stays";
  world.SetGpus(1);
  EXPECT_EQ(world.Hello(), "");
  EXPECT_EQ(world.Command(1, "move", {1}), "GPU 1 cannot be used: it is no longer there");
}

TEST(KeeperMoves, NobodyGoesToAHostWithoutRoom) {
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
  // Back it comes also when that room is gone.
  world.SetHostMemory(0);
  EXPECT_EQ(world.Command(1, "wake"), "");
}

TEST(KeeperMoves, WhoIsAboutToBeBoundIsBroughtHomeFirst) {
  Moved world;
  // Away from where the plan has it.
  const int paper = 0;
  ASSERT_EQ(world.Command(1, "move", {1 - paper}), "");
  ASSERT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; }));
  EXPECT_TRUE(world.process->Ask(share::Word::kPin, share::kIpc));
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, paper);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).paper, paper);
}

TEST(KeeperMoves, AWholeJobIsToldWhoStays) {
  Moved world;
  world.process->page->processes[world.process->slot].flags = share::kCollectives;
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).unmovable == "uses NCCL"; }));
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(50);
  request.take_whole->gpus.Insert(static_cast<GpuIndex>(world.at));
  EXPECT_NE(world.node->Ask(request).find("uses NCCL"), std::string::npos);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, world.at);
}

// --- GPUs that are not for tenants now ------------------------------------------------------------------------------

/// Says of a GPU that it is withheld.
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

TEST(KeeperMoves, TenantsLeaveAGpuThatIsWithheld) {
  Moved world;
  EXPECT_EQ(Withhold(world, world.at, "is restricted"), "");
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).shares.at(0).gpu == 1 - world.at; }));
  EXPECT_EQ(world.Command(1, "move", {world.at}),
            "GPU " + std::to_string(world.at) + " is not for parts of it now: it is restricted");
}

TEST(KeeperMoves, WhoCannotLeaveAWithheldGpuSaysWhy) {
  Moved world;
  world.process->page->processes[world.process->slot].flags = share::kCollectives;
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).unmovable == "uses NCCL"; }));
  EXPECT_EQ(Withhold(world, world.at, "is restricted"), "");
  const std::string why = "is on GPU " + std::to_string(world.at) + ", which is restricted, and stays there: uses NCCL";
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).trouble == why; })) << world.node->StateOf(1).trouble;
}

// --- A tenant that is damaged ----------------------------------------------------------------------------------------

/// Neither back nor to the host: what its process has nobody knows.
struct Damaged : Moved {
  Damaged() {
    process->fails_returns = 1;
    process->breaks = true;
    why = Command(1, "move", {1 - at});
  }
  std::string TakeWhole(int gpu) {
    wire::KeeperRequest request;
    request.take_whole.emplace().job = JobId(50);
    request.take_whole->gpus.Insert(static_cast<GpuIndex>(gpu));
    return node->Ask(request);
  }
  std::string why;
};

TEST(KeeperLoss, ADamagedTenantsCallsFailAndOthersGoOn) {
  Damaged world;
  EXPECT_NE(world.why.find("its memory was damaged"), std::string::npos) << world.why;
  EXPECT_EQ(world.process->Gate(), share::kLost) << "a shut gate would hold its processes for ever";
  EXPECT_NE(world.node->StateOf(1).trouble.find("its memory was damaged"), std::string::npos);
  EXPECT_NE(world.TakeWhole(world.at).find("it was damaged"), std::string::npos);
  FakeProcess other(world.Add(KeeperWorld::Terms(2, world.at, 0.5, 4 * kGiB, 4 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return other.is_up(); }));
  EXPECT_TRUE(other.Allocate(4 * kGiB));
  std::atomic<bool> is_over{false};
  std::thread worker([&] { other.Work(1ms, is_over); });
  EXPECT_TRUE(Eventually([&] { return other.worked > 50'000'000; }));
  is_over = true;
  worker.join();
}

TEST(KeeperLoss, WhereItsProcessesHaveEndedTheGpuIsFreeAndItsNextAreServed) {
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

TEST(KeeperLoss, TheNextKeeperKnowsOfIt) {
  Damaged world;
  world.Kill();
  world.Start();
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_EQ(world.process->Gate(), share::kLost);
  world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  EXPECT_EQ(world.process->Gate(), share::kLost);
  EXPECT_NE(world.TakeWhole(world.at).find("it was damaged"), std::string::npos);
}

// --- A keeper that nobody finds any more -----------------------------------------------------------------------------

TEST(KeeperAbandoned, WhereItsDirectoryIsGoneItLetsItsTenantsGoOnAndEnds) {
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

TEST(KeeperAbandoned, WhereAnotherServesItsDirectoryItEndsAsIfItWereKilled) {
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

TEST(KeeperRecovery, TenantsGoOnWithWhatTheyHave) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
  FakeProcess process(folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  ASSERT_TRUE(process.Allocate(3 * kGiB));
  const std::uint32_t slot = process.slot;
  world.Kill();
  // Its gate stays as it was; nothing holds it up.
  EXPECT_EQ(process.Gate(), share::kOpen);
  world.Start();
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_EQ(process.slot, slot);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(3 * kGiB));
  EXPECT_TRUE(Eventually([&] { return process.Gate() == share::kOpen; }));
  EXPECT_TRUE(process.Allocate(kGiB));
  EXPECT_FALSE(process.Allocate(kGiB));
  // The node says again what there is; nothing changes by it.
  const wire::KeeperAdded again = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  EXPECT_EQ(again.folder, folder);
  EXPECT_EQ(process.slot, slot);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(4 * kGiB));
}

TEST(KeeperRecovery, AParkedTenantStaysParkedAndComesBack) {
  Moved world;
  ASSERT_EQ(world.Command(1, "park"), "");
  world.process->stays_away = true;
  world.Kill();
  world.Start();
  // The node says again what there is before its processes have dialled.
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

TEST(KeeperRecovery, AMoveThatWasCutOffIsBroughtToAnEnd) {
  // A process that does not answer holds the move where it is: on its way down, before or after the driver's part.
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

TEST(KeeperRecovery, WhatTheNodeSaysAgainOpensNoGateBeforeTheMemoryIsBack) {
  Moved world;
  world.process->mutes_when_emptied = true;
  wire::KeeperRequest request;
  request.move = wire::KeeperMove{JobId(1), {1 - world.at}};
  world.node->Send(request);
  ASSERT_TRUE(Eventually([&] { return world.driver_state() == 0 && !world.FileText("maps").empty(); }));
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

// Each keeper knows of what is away only what those before it wrote down.
TEST(KeeperRecovery, WhatIsOnTheHostCountsForEveryKeeperThatComesAfter) {
  Moved world;
  ASSERT_EQ(world.Command(1, "park"), "");
  world.process->is_mute = true;  // It does not answer that it is to come back.
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

TEST(KeeperRecovery, WhatCouldNotComeBackYetStillCounts) {
  Moved world;
  world.process->mutes_when_emptied = true;
  wire::KeeperRequest request;
  request.move = wire::KeeperMove{JobId(1), {1 - world.at}};
  world.node->Send(request);
  ASSERT_TRUE(Eventually([&] { return world.driver_state() == 0 && !world.FileText("maps").empty(); }));
  world.process->mutes_when_emptied = false;
  world.Kill();
  world.process->is_mute = false;
  world.process->fails_returns = 1;
  world.Start();
  EXPECT_TRUE(Eventually([&] { return world.process->Gate() == share::kOpen; })) << world.node->StateOf(1).trouble;
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(2 * kGiB));
}

TEST(KeeperRecovery, AProcessThatHasNotDialledIsNotLeftOnTheHost) {
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
  EXPECT_EQ(answer->error, "a process of the job runs and has not dialled the keeper");
  EXPECT_EQ(second.Gate(), share::kParked);
  second.stays_away = false;
  EXPECT_TRUE(Eventually([&] { return second.Gate() == share::kOpen; }));
  EXPECT_FALSE(second.is_emptied);
  EXPECT_FALSE(world.process->is_emptied);
}

// What a process took in the moment in which its gate was shut may be in no record.
TEST(KeeperRecovery, AProcessThatNeedsMoreThanIsKnownSaysSoAndComesBack) {
  Moved world;
  ASSERT_EQ(world.Command(1, "park"), "");
  world.Kill();
  world.process->away[0] += kGiB;
  world.Start();
  EXPECT_EQ(world.Command(1, "wake"), "process " + std::to_string(::getpid()) + " the ceiling is lower");
  EXPECT_EQ(world.Command(1, "wake"), "");
  EXPECT_EQ(world.process->Gate(), share::kOpen);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(3 * kGiB));
}

}  // namespace
}  // namespace divvy::keeper
