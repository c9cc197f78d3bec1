#include "keeper/keeper.h"

#include <gtest/gtest.h>

#include "keeper/keeper_test_world.h"

namespace divvy::keeper {
namespace keeper_test {

TEST(Keeper, ATenantHasItsOwnPageAndItsRequest) {
  KeeperWorld world;
  const wire::KeeperAdded added = world.Add(KeeperWorld::Terms(7, 1, 0.5, 4 * kGiB, 8 * kGiB));
  EXPECT_EQ(added.gpus.size(), 1u);
  EXPECT_EQ(added.folder, world.directory + "/7.1");
  EXPECT_EQ(std::count(added.environment.begin(), added.environment.end(), "DIVVY_SHARE=" + added.folder), 1);
  EXPECT_EQ(added.reachable, GpuSet::FirstN(2));
  struct stat about {};
  ASSERT_EQ(::stat(added.folder.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700u);
  ASSERT_EQ(::stat((added.folder + "/page").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600u);
  FakeProcess process(added.folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  EXPECT_EQ(process.page->devices[0].request, static_cast<std::uint64_t>(4 * kGiB));
  EXPECT_EQ(process.page->devices[0].limit, static_cast<std::uint64_t>(8 * kGiB));
  EXPECT_EQ(process.Gate(), share::kOpen);
  EXPECT_TRUE(process.Allocate(4 * kGiB));
  EXPECT_TRUE(process.Allocate(4 * kGiB));
  EXPECT_FALSE(process.Allocate(1));
  EXPECT_EQ(world.Command(7, "remove"), "");
  EXPECT_FALSE(std::filesystem::exists(added.folder));
  EXPECT_FALSE(std::filesystem::exists(world.directory + "/7.1.tenant"));
}

TEST(Keeper, BorrowedMemoryIsRepaidWithoutDataLoss) {
  KeeperWorld world(1);
  FakeProcess borrower(world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 16 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return borrower.is_up(); }));
  ASSERT_TRUE(borrower.Allocate(12 * kGiB));
  borrower.Free(8 * kGiB);
  FakeProcess owner(world.Add(KeeperWorld::Terms(2, 0, 0.5, 8 * kGiB, 8 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return owner.is_up(); }));
  EXPECT_TRUE(owner.Allocate(8 * kGiB));
  const wire::KeptTenant shown = world.node->StateOf(2);
  EXPECT_EQ(shown.shares.at(0).used, Bytes(8 * kGiB));
  EXPECT_EQ(shown.mechanism, "enforced by interposer");
  EXPECT_LE(borrower.page->devices[0].ceiling + owner.page->devices[0].ceiling, static_cast<std::uint64_t>(16 * kGiB));
}

// The page is more recent than the last tick.
TEST(Keeper, NothingIsLentToAProcessThatIsPinned) {
  KeeperWorld world(1);
  FakeProcess process(world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 16 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  ASSERT_TRUE(process.Allocate(kGiB));
  __atomic_fetch_or(&process.page->processes[process.slot].flags, share::kManaged, __ATOMIC_ACQ_REL);
  EXPECT_FALSE(process.Allocate(12 * kGiB));
  EXPECT_TRUE(process.Allocate(3 * kGiB));
}

TEST(Keeper, AProcessThatEndsFreesItsMemory) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
  FakeProcess other(folder);
  ASSERT_TRUE(Eventually([&] { return other.is_up(); }));
  EXPECT_EQ(InChild([&] {
              auto* first = new FakeProcess(folder);
              if (!Eventually([&] { return first->is_up(); }) || first->slot == other.slot) return 1;
              if (!first->Allocate(4 * kGiB)) return 2;
              // Then it dies while it holds the lock.
              return share::LockPage(*first->page, share::LockedBySlot(first->slot));
            }),
            0);
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_TRUE(other.Allocate(4 * kGiB));
}

TEST(Keeper, AProcessThatLosesItsConnectionKeepsItsMemory) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
  FakeProcess process(folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  ASSERT_TRUE(process.Allocate(3 * kGiB));
  const std::uint32_t slot = process.slot;
  process.stays_away = true;
  process.Say(static_cast<share::Word>(99));  // Disconnects it.
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 0; }));
  // It lives, and its memory still counts.
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(3 * kGiB));
  process.stays_away = false;
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_EQ(process.slot, slot);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(3 * kGiB));
  EXPECT_TRUE(process.Allocate(kGiB));
  EXPECT_FALSE(process.Allocate(1));
}

struct Ratio {
  std::vector<double> weights;
};
void PrintTo(const Ratio& ratio, std::ostream* out) { *out << testing::PrintToString(ratio.weights); }
class Shares : public testing::TestWithParam<Ratio> {};

TEST_P(Shares, TimeIsDividedAsRequested) {
  KeeperWorld world(1);
  std::vector<std::unique_ptr<FakeProcess>> processes;
  for (std::size_t i = 0; i < GetParam().weights.size(); ++i) {
    processes.push_back(std::make_unique<FakeProcess>(
        world.Add(KeeperWorld::Terms(i + 1, 0, GetParam().weights[i], kGiB, kGiB)).folder));
    ASSERT_TRUE(Eventually([&] { return processes.back()->is_up(); }));
  }
  std::atomic<bool> is_over{false};
  std::vector<std::thread> workers;
  for (auto& process : processes) workers.emplace_back([&] { process->Work(1ms, is_over); });
  const auto sum = [&] {
    std::int64_t all = 0;
    for (auto& process : processes) all += process->worked;
    return all;
  };
  EXPECT_TRUE(Eventually([&] { return sum() > 1'500'000'000; }, 30s));
  is_over = true;
  for (std::thread& worker : workers) worker.join();
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const double share = static_cast<double>(processes[i]->worked) / static_cast<double>(sum());
    RecordProperty("share" + std::to_string(i), std::to_string(share));
    EXPECT_NEAR(share, GetParam().weights[i], 0.05) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Keeper, Shares, testing::Values(Ratio{{0.1, 0.9}}, Ratio{{0.25, 0.25, 0.5}}));

TEST(Keeper, ASingleTenantIsNotDelayed) {
  KeeperWorld world(1);
  FakeProcess idle(world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB)).folder);
  FakeProcess busy(world.Add(KeeperWorld::Terms(2, 0, 0.5, kGiB, kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return idle.is_up() && busy.is_up(); }));
  std::atomic<bool> is_over{false};
  std::thread worker([&] { busy.Work(1ms, is_over); });
  // The idle tenant yields whenever it has a turn.
  EXPECT_TRUE(Eventually([&] {
    if (idle.Gate() == share::kTurn || idle.Gate() == share::kOpen) idle.Say(share::Word::kYield);
    return busy.Gate() == share::kOpen;
  }));
  is_over = true;
  worker.join();
}

TEST(Keeper, ATenantWithoutProcessesDelaysNoOther) {
  KeeperWorld world(1);
  static_cast<void>(world.Add(KeeperWorld::Terms(1, 0, 0.4, kGiB, kGiB)));
  auto gone = std::make_unique<FakeProcess>(world.Add(KeeperWorld::Terms(2, 0, 0.4, kGiB, kGiB)).folder);
  FakeProcess busy(world.Add(KeeperWorld::Terms(3, 0, 0.2, kGiB, kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return gone->is_up() && busy.is_up(); }));
  gone->Say(share::Word::kAsk);
  ASSERT_TRUE(Eventually([&] { return gone->Gate() == share::kOpen || gone->Gate() == share::kTurn; }));
  gone.reset();
  std::atomic<bool> is_over{false};
  std::thread worker([&] { busy.Work(1ms, is_over); });
  EXPECT_TRUE(Eventually([&] { return busy.Gate() == share::kOpen; }));
  is_over = true;
  worker.join();
}

bool SaysThatItOverruns(const wire::KeptTenant& tenant) {
  return std::ranges::count(tenant.words, "its kernels on GPU 0 overrun its turns") == 1;
}

TEST(Keeper, EndlessWorkIsChargedWhileOthersContinue) {
  KeeperWorld world(1);
  FakeProcess hog(world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB)).folder);
  FakeProcess other(world.Add(KeeperWorld::Terms(2, 0, 0.5, kGiB, kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return hog.is_up() && other.is_up(); }));
  std::atomic<bool> is_over{false};
  std::thread hogging([&] { hog.Work(7s, is_over); });
  ASSERT_TRUE(
      Eventually([&] { return __atomic_load_n(&hog.page->processes[hog.slot].launches, __ATOMIC_ACQUIRE) == 1; }));
  std::thread working([&] { other.Work(1ms, is_over); });
  const auto had = [&](std::uint64_t job) { return world.node->StateOf(job).shares.at(0).compute; };
  EXPECT_TRUE(Eventually([&] { return had(1) > GpuShare(8000) && had(2) > GpuShare(8000); }, 8s));
  EXPECT_TRUE(SaysThatItOverruns(world.node->StateOf(1)));
  is_over = true;
  hogging.join();
  working.join();
  EXPECT_TRUE(Eventually([&] { return !SaysThatItOverruns(world.node->StateOf(1)); })) << "they have ended";
}

TEST(Keeper, WithoutNeighborsNothingIsSaidAboutThem) {
  KeeperWorld world(1);
  wire::KeeperAdd terms = KeeperWorld::Terms(1, 0, 0.25, kGiB, kGiB);
  terms.share.compute_limit = GpuShare(5000);
  FakeProcess alone(world.Add(terms).folder);
  ASSERT_TRUE(Eventually([&] { return alone.is_up(); }));
  std::atomic<bool> is_over{false};
  std::thread working([&] { alone.Work(4s, is_over); });
  ASSERT_TRUE(Eventually([&] { return alone.Gate() == share::kShut; })) << "its limit is reached";
  ASSERT_TRUE(Eventually([&] { return alone.Gate() != share::kShut; }, 20s));
  const wire::KeptTenant state = world.node->StateOf(1);
  EXPECT_EQ(state.trouble, "");
  EXPECT_FALSE(SaysThatItOverruns(state));
  is_over = true;
  working.join();
}

TEST(Keeper, AProcessWithAnUnusablePageIsToldSo) {
  KeeperWorld world(1);
  FakeProcess process(world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  struct stat page {};
  ASSERT_EQ(::stat((world.directory + "/1.1/page").c_str(), &page), 0);
  EXPECT_EQ(process.welcome.bytes, page.st_ino);
  process.page->magic = 0;
  process.Say(static_cast<share::Word>(99));  // Disconnects it; it dials again.
  ASSERT_TRUE(Eventually([&] { return process.is_refused.load(); }));
  EXPECT_EQ(process.refusal.result, share::kPageBroken);
  EXPECT_EQ(std::string(process.refusal.text), "the job's page was overwritten; start the job again");
}

TEST(Keeper, ReservedDriverMemoryCountsFromTheHello) {
  KeeperWorld world(1, false, 30s, kGiB);
  const std::string folder = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
  FakeProcess process(folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(kGiB));
  EXPECT_FALSE(process.Allocate(3 * kGiB + 1));
  EXPECT_TRUE(process.Allocate(3 * kGiB));
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(4 * kGiB));
  // The next keeper counts it, too.
  world.Kill();
  world.Start();
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).used, Bytes(4 * kGiB));
}

TEST(Keeper, ResizesALiveTenant) {
  KeeperWorld world(1);
  FakeProcess process(world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  ASSERT_TRUE(process.Allocate(4 * kGiB));
  EXPECT_FALSE(process.Allocate(kGiB));
  wire::KeeperRequest request;
  request.resize = wire::KeeperResize{JobId(1), KeeperWorld::Terms(1, 0, 0.5, 8 * kGiB, 8 * kGiB).share};
  EXPECT_EQ(world.node->Ask(request), "");
  EXPECT_TRUE(process.Allocate(kGiB));
  request.resize->share.memory_request = Bytes(17 * kGiB);
  request.resize->share.memory_limit = Bytes(17 * kGiB);
  EXPECT_NE(world.node->Ask(request), "");
  request.resize->share = KeeperWorld::Terms(1, 0, 0.5, 2 * kGiB, 2 * kGiB).share;
  EXPECT_EQ(world.node->Ask(request), "");
  EXPECT_EQ(process.page->devices[0].limit, static_cast<std::uint64_t>(2 * kGiB));
  EXPECT_FALSE(process.Allocate(1));
}

// While the neighbour wants turns too, the gate takes turns and is never open.
TEST(Keeper, TheGateStaysOpenOnceTheNeighborYields) {
  KeeperWorld world(1);
  FakeProcess one(world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB)).folder);
  FakeProcess other(world.Add(KeeperWorld::Terms(2, 0, 0.5, kGiB, kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return one.is_up() && other.is_up(); }));
  const auto may_go = [](const FakeProcess& process) {
    return process.Gate() == share::kOpen || process.Gate() == share::kTurn;
  };
  for (int round = 0; round < 200; ++round) {
    FakeProcess& leaves = round % 2 == 0 ? one : other;
    FakeProcess& comes = round % 2 == 0 ? other : one;
    leaves.Say(share::Word::kAsk);
    ASSERT_TRUE(Eventually([&] { return may_go(leaves); })) << round;
    comes.Say(share::Word::kAsk);
    leaves.Say(share::Word::kYield);
    ASSERT_TRUE(Eventually([&] {
      // A yield that arrives after the end of its turn has no effect; the library yields again in its next turn.
      if (may_go(leaves)) leaves.Say(share::Word::kYield);
      return comes.Gate() == share::kOpen;
    })) << round;
    comes.Say(share::Word::kYield);
  }
}

// Neither gives its turn away. Reported is the time that they used, not the time of their turns.
TEST(Keeper, AnIdleTenantIsShownWithoutGpuTime) {
  KeeperWorld world(1);
  std::vector<std::unique_ptr<FakeProcess>> processes;
  for (const std::uint64_t job : {1, 2}) {
    processes.push_back(
        std::make_unique<FakeProcess>(world.Add(KeeperWorld::Terms(job, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder));
    ASSERT_TRUE(Eventually([&] { return processes.back()->is_up(); }));
  }
  const auto had = [&](std::uint64_t job) { return world.node->StateOf(job).shares.at(0).compute; };
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (auto& process : processes) threads.emplace_back([&] { process->Work(1ms, is_over); });
  EXPECT_TRUE(Eventually([&] { return had(1) > GpuShare(1'000) && had(2) > GpuShare(1'000); }, 20s));
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return had(1) == GpuShare() && had(2) == GpuShare(); }, 20s));
}

TEST(Keeper, EndsWithItsLastTenant) {
  KeeperWorld world(1, false, 100ms);
  world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB));
  world.node.reset();
  EXPECT_FALSE(Eventually([&] { return world.has_ended.load(); }, 1s));
  world.node = std::make_unique<NodeClient>(world.directory);
  EXPECT_EQ(world.Command(1, "remove"), "");
  world.node.reset();
  EXPECT_TRUE(Eventually([&] { return world.has_ended.load(); }));
}

TEST(Keeper, ARequeueIsRequestedOnlyForATenantThatAllowsIt) {
  KeeperWorld world(1);
  wire::KeeperAdd terms = KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 16 * kGiB);
  terms.may_requeue = true;
  FakeProcess borrower(world.Add(terms).folder);
  ASSERT_TRUE(Eventually([&] { return borrower.is_up(); }));
  ASSERT_TRUE(borrower.Allocate(12 * kGiB));
  borrower.page->processes[borrower.slot].flags = share::kCollectives;
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).unmovable == "uses NCCL"; }));
  FakeProcess owner(world.Add(KeeperWorld::Terms(2, 0, 0.5, 8 * kGiB, 8 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return owner.is_up(); }));
  std::thread allocating([&] { EXPECT_TRUE(owner.Allocate(8 * kGiB)); });
  EXPECT_TRUE(Eventually([&] {
    world.node->Read();
    return !world.node->requeues.empty();
  }));
  ASSERT_FALSE(world.node->requeues.empty());
  EXPECT_EQ(world.node->requeues[0].job, JobId(1));
  EXPECT_EQ(world.node->requeues[0].owner, JobId(2));
  EXPECT_GT(world.node->requeues[0].bytes, Bytes(0));
  EXPECT_EQ(world.Command(1, "remove"), "");
  allocating.join();
}

TEST(Keeper, RefusesInvalidRequests) {
  KeeperWorld world(1);
  const auto refused = [&](const wire::KeeperAdd& add) {
    wire::KeeperRequest request;
    request.add = add;
    return world.node->Ask(request);
  };
  EXPECT_NE(refused(KeeperWorld::Terms(1, 5, 0.5, kGiB, kGiB)), "");
  EXPECT_NE(refused(KeeperWorld::Terms(1, 0, 0.5, 20 * kGiB, 20 * kGiB)), "");
  wire::KeeperAdd mps = KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB);
  mps.slice = {"1g.10gb", 1, 1, 0};
  EXPECT_NE(refused(mps), "");
  EXPECT_NE(world.Command(9, "park"), "");
  wire::KeeperRequest nothing;
  EXPECT_NE(world.node->Ask(nothing), "");
}

TEST(Keeper, ATenantsFolderIsAccessibleToItsUserOnly) {
  KeeperWorld world(1);
  ASSERT_EQ(::chmod(world.directory.c_str(), 02751), 0);
  struct stat about = {};
  ASSERT_EQ(::stat(world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB)).folder.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700U) << "the set-group-ID bit of the folder above is not inherited";
}

TEST(Keeper, OthersAreServedWhileAnMpsServerStarts) {
  KeeperWorld world(1);
  world.Kill();
  world.mps_program = world.directory + "/control";
  std::ofstream(world.mps_program) << "#!/bin/sh\n: > " << world.directory << "/begun\nwhile [ -e " << world.directory
                                   << "/slow ]; do sleep 0.01; done\n";
  ::chmod(world.mps_program.c_str(), 0755);
  std::ofstream(world.directory + "/slow") << "x";
  world.Start();
  wire::KeeperRequest request;
  request.add = KeeperWorld::Terms(1, 0, 0.25, 2 * kGiB, 2 * kGiB);
  request.add->uses_mps = true;
  const std::uint64_t asked = world.node->Send(request);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(world.directory + "/begun"); }));
  FakeProcess other(world.Add(KeeperWorld::Terms(2, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return other.is_up(); }));
  EXPECT_TRUE(other.Allocate(4 * kGiB));
  std::filesystem::remove(world.directory + "/slow");
  const auto answer = world.node->AnswerTo(asked);
  ASSERT_TRUE(answer && answer->added) << (answer ? answer->error : "no answer");
  const std::vector<std::string>& environment = answer->added->environment;
  EXPECT_EQ(std::count(environment.begin(), environment.end(), "CUDA_MPS_PIPE_DIRECTORY=" + world.directory + "/mps.0"),
            1);
}

}  // namespace keeper_test
}  // namespace divvy::keeper
