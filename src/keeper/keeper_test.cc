#include "keeper/keeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "keeper/keeper_test_world.h"

namespace divvy::keeper {
namespace {

TEST(Keeper, ATenantHasAPageOfItsOwnAndWhatItAskedFor) {
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

TEST(Keeper, WhatIsBorrowedIsRepaidWithoutHarm) {
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

TEST(Keeper, AProcessThatEndsGivesItsBytesBack) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
  FakeProcess other(folder);
  ASSERT_TRUE(Eventually([&] { return other.is_up(); }));
  {
    FakeProcess first(folder);
    ASSERT_TRUE(Eventually([&] { return first.is_up(); }));
    EXPECT_NE(first.slot, other.slot);
    ASSERT_TRUE(first.Allocate(4 * kGiB));
    // And it dies in the middle of what it does.
    ASSERT_EQ(share::LockPage(*first.page, share::LockedBySlot(first.slot)), 0);
  }
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  EXPECT_TRUE(other.Allocate(4 * kGiB));
}

struct Ratio {
  std::vector<double> weights;
};
class Shares : public testing::TestWithParam<Ratio> {};

TEST_P(Shares, TimeIsDividedAsAskedFor) {
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

TEST(Keeper, WhoIsAloneIsNotHeldUp) {
  KeeperWorld world(1);
  FakeProcess idle(world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB)).folder);
  FakeProcess busy(world.Add(KeeperWorld::Terms(2, 0, 0.5, kGiB, kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return idle.is_up() && busy.is_up(); }));
  std::atomic<bool> is_over{false};
  std::thread worker([&] { busy.Work(1ms, is_over); });
  // The idle one says so in its turn, if it has one.
  EXPECT_TRUE(Eventually([&] {
    if (idle.Gate() == share::kTurn || idle.Gate() == share::kOpen) idle.Say(share::Word::kYield);
    return busy.Gate() == share::kOpen;
  }));
  is_over = true;
  worker.join();
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

TEST(Keeper, TheGateOpensSoonAfterItsNeighbourYields) {
  KeeperWorld world(1);
  FakeProcess one(world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB)).folder);
  FakeProcess other(world.Add(KeeperWorld::Terms(2, 0, 0.5, kGiB, kGiB)).folder);
  ASSERT_TRUE(Eventually([&] { return one.is_up() && other.is_up(); }));
  const auto may_go = [](const FakeProcess& process) {
    return process.Gate() == share::kOpen || process.Gate() == share::kTurn;
  };
  std::vector<std::int64_t> waits;
  for (int round = 0; round < 200; ++round) {
    FakeProcess& leaves = round % 2 == 0 ? one : other;
    FakeProcess& comes = round % 2 == 0 ? other : one;
    leaves.Say(share::Word::kAsk);
    ASSERT_TRUE(Eventually([&] { return may_go(leaves); })) << round;
    const auto began = std::chrono::steady_clock::now();
    comes.Say(share::Word::kAsk);
    leaves.Say(share::Word::kYield);
    while (!may_go(comes) && std::chrono::steady_clock::now() - began < 2s) {
    }
    waits.push_back((std::chrono::steady_clock::now() - began).count());
    comes.Say(share::Word::kYield);
  }
  std::sort(waits.begin(), waits.end());
  std::printf("from kAsk and kYield to the gate: median %.0f us\n", static_cast<double>(waits[100]) / 1e3);
  EXPECT_LT(waits[100], 5'000'000);
}

TEST(Keeper, EndsWhenNobodyNeedsIt) {
  KeeperWorld world(1, false, 100ms);
  world.Add(KeeperWorld::Terms(1, 0, 0.5, kGiB, kGiB));
  world.node.reset();
  EXPECT_FALSE(Eventually([&] { return world.has_ended.load(); }, 1s));
  world.node = std::make_unique<NodeClient>(world.directory);
  EXPECT_EQ(world.Command(1, "remove"), "");
  world.node.reset();
  EXPECT_TRUE(Eventually([&] { return world.has_ended.load(); }));
}

TEST(Keeper, WhoMayBeRequeuedIsNamedAsTheLastRung) {
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

TEST(Keeper, RefusesWhatCannotBe) {
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

}  // namespace
}  // namespace divvy::keeper
