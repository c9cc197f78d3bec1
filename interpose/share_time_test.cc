// The gate: which calls wait at it, and what the keeper is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "share_test_world.h"

namespace divvy::interpose {
namespace share_time_test {

constexpr const char* kAnHour = "3600000000000";  // A kernel that does not end while a test waits for an answer.

class ShareTime : public ::testing::Test {
 protected:
  void Begin(const std::string& kernel_ns = "1000") {
    ASSERT_EQ(program_.Do("init dlsym " + kernel_ns), "0");
    ASSERT_EQ(program_.Do("alloc a plain 1M"), "0");
    ASSERT_EQ(program_.Do("fill a 1"), "0");
  }
  std::uint32_t Waiting() { return __atomic_load_n(&keeper_.page().processes[0].waiting, __ATOMIC_ACQUIRE); }
  std::uint64_t Launches() { return __atomic_load_n(&keeper_.page().processes[0].launches, __ATOMIC_ACQUIRE); }

  World world_;
  FakeKeeper keeper_{world_, 64 * kMiB};
  Program program_{world_, keeper_};
};

TEST_F(ShareTime, AShutGateHoldsLaunchesOnly) {
  Begin();
  keeper_.SetGate(share::kShut);
  EXPECT_EQ(program_.Do("check a 1"), "0");
  EXPECT_EQ(program_.Do("sync"), "0");
  program_.Tell("launch 1");
  EXPECT_EQ(keeper_.Await(share::Word::kAsk).device, 0U);
  EXPECT_TRUE(Eventually([&] { return Waiting() == 1; }));
  EXPECT_FALSE(program_.HasAnswer());
  EXPECT_EQ(Launches(), 0U);
  EXPECT_EQ(keeper_.page().processes[0].entered, 0U);
  keeper_.SetGate(share::kOpen);
  EXPECT_EQ(program_.Answer(), "0");
  EXPECT_EQ(Launches(), 1U);
  EXPECT_EQ(Waiting(), 0U);
}

TEST_F(ShareTime, AParkedGateHoldsAllCallsAndWakesTheTenant) {
  Begin();
  keeper_.SetGate(share::kParked);
  program_.Tell("check a 1");
  keeper_.Await(share::Word::kWake);
  EXPECT_TRUE(Eventually([&] { return Waiting() == 1; }));
  EXPECT_FALSE(program_.HasAnswer());
  keeper_.SetGate(share::kMoving);
  EXPECT_TRUE(Eventually([&] { return Waiting() == 1; }));
  EXPECT_FALSE(program_.HasAnswer());
  keeper_.SetGate(share::kShut);  // The memory is on the device, but another tenant has the turn.
  EXPECT_EQ(program_.Answer(), "0");
}

TEST_F(ShareTime, ADrainEndsWhenTheDeviceHasFinishedAllWork) {
  Begin("50000000");
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(program_.Do("launch 10"), "0");  // 500 ms of work.
  keeper_.SetGate(share::kShut);
  const share::Message drained = keeper_.Command(0, share::Word::kDrain);
  EXPECT_EQ(drained.word, share::Word::kDrained);
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(490));
}

TEST_F(ShareTime, ADrainDoesNotInvalidateAStreamCapture) {
  Begin();
  for (const char* flags : {"0", "1"}) {  // A blocking and a non-blocking stream.
    ASSERT_EQ(program_.Do(std::string("capture ") + flags), "0");
    keeper_.SetGate(share::kShut);
    EXPECT_EQ(keeper_.Command(0, share::Word::kDrain).word, share::Word::kDrained);
    keeper_.SetGate(share::kOpen);
    EXPECT_EQ(program_.Do("captured"), "0 0 0");
  }
}

// 100 launches of 1 ms would make a drain wait 100 ms. During a turn they are not launched so far ahead.
TEST_F(ShareTime, FewLaunchesAreInFlightDuringATimeSlice) {
  Begin("1000000");
  keeper_.SetGate(share::kTurn);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(program_.Do("launch 100"), "0");
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(80));
}

TEST_F(ShareTime, LaunchesBehindAnOpenGateDoNotWaitForTheDevice) {
  Begin(kAnHour);
  EXPECT_EQ(program_.Do("launch 100"), "0");
}

// Like a kernel that waits for a flag which the program sets after the launch.
TEST_F(ShareTime, DuringATimeSliceALaunchThatWaitsForItsProgramReturns) {
  Begin();
  keeper_.SetGate(share::kTurn);
  EXPECT_EQ(program_.Do("held"), "0");
  EXPECT_EQ(program_.Do("let-go"), "0");
}

TEST_F(ShareTime, OtherThreadsCanAllocateAndUseTheContextDuringADrain) {
  Begin();
  ASSERT_EQ(program_.Do("held"), "0");
  keeper_.SetGate(share::kShut);
  share::Message drain{};
  drain.word = share::Word::kDrain;
  keeper_.Send(0, drain);
  // Meanwhile the keeper's other messages are handled, and a new thread can use the context.
  EXPECT_EQ(program_.Do("new-thread"), "0");
  keeper_.SetCeiling(64 * kMiB, 128 * kMiB);
  keeper_.on_want = [&](const share::Message&) {
    keeper_.SetCeiling(128 * kMiB, 128 * kMiB);
    return true;
  };
  EXPECT_EQ(program_.Do("alloc b plain 100M"), "0");
  EXPECT_FALSE(keeper_.Has(share::Word::kDrained));
  EXPECT_EQ(program_.Do("let-go"), "0");
  keeper_.Await(share::Word::kDrained);
}

// Launched work may wait for later launches, as with NCCL.
TEST_F(ShareTime, ADrainDoesNotWaitForeverForWorkThatNeedsLaterLaunches) {
  Begin(kAnHour);
  keeper_.SetGate(share::kTurn);
  keeper_.page().processes[0].flags |= share::kCollectives;
  EXPECT_EQ(program_.Do("launch 1"), "0");
}

TEST_F(ShareTime, AnIdleProcessYieldsItsTimeSlice) {
  Begin();
  keeper_.SetGate(share::kTurn);
  ASSERT_EQ(program_.Do("launch 1"), "0");
  EXPECT_EQ(keeper_.Await(share::Word::kYield).device, 0U);
  EXPECT_EQ(keeper_.CountOf(share::Word::kYield), 1U);
}

TEST_F(ShareTime, ANewKeeperFindsTheSlotAndLearnsWhoWaits) {
  Begin();
  const std::uint64_t used = keeper_.Used();
  keeper_.SetGate(share::kShut);
  program_.Tell("launch 1");
  keeper_.Await(share::Word::kAsk);
  const share::Message first = keeper_.Await(share::Word::kHello);
  EXPECT_EQ(first.process, share::kNoSlot);
  keeper_.Kill();
  EXPECT_EQ(keeper_.Used(), used);
  keeper_.Start();
  const share::Message hello = keeper_.Await(share::Word::kHello);
  EXPECT_EQ(hello.process, 0U);
  EXPECT_EQ(hello.id, keeper_.page().processes[0].generation);
  keeper_.Await(share::Word::kAsk);
  keeper_.SetGate(share::kOpen);
  EXPECT_EQ(program_.Answer(), "0");
  EXPECT_EQ(keeper_.Used(), used);
  EXPECT_EQ(program_.Do("alloc b plain 16M"), "0");
}

TEST_F(ShareTime, WithoutAKeeperAProgramKeepsItsMemoryAndContinues) {
  Begin();
  keeper_.Kill();
  EXPECT_EQ(program_.Do("launch 10"), "0");
  EXPECT_EQ(program_.Do("alloc b plain 16M"), "0");  // Below the ceiling no request is necessary.
  EXPECT_EQ(program_.Do("check a 1"), "0");
  EXPECT_EQ(program_.Do("free b"), "0");
  keeper_.Start();
  keeper_.Await(share::Word::kHello);
  EXPECT_EQ(program_.Do("launch 10"), "0");
}

TEST_F(ShareTime, AKeeperWithoutTheSlotAssignsAnother) {
  Begin();
  const std::uint64_t used = keeper_.Used();
  keeper_.Kill();
  keeper_.page().processes[0] = {};
  keeper_.page().processes[0].is_taken = 1;  // The slot belongs to another process now.
  keeper_.page().processes[0].generation = 99;
  keeper_.Start();
  EXPECT_TRUE(Eventually([&] { return keeper_.Used() == used; }));
  EXPECT_EQ(keeper_.page().processes[1].used[0], used);
  EXPECT_EQ(program_.Do("free a"), "0");
  EXPECT_EQ(keeper_.Used(), 0U);
}

// The keeper has given the process's slot to another process, and the process does not know it yet.
TEST_F(ShareTime, ASlotThatWasReassignedIsLeftAlone) {
  Begin();
  share::PageProcess& slot = keeper_.page().processes[0];
  slot.generation = 99;
  slot.used[0] = 3 * kMiB;
  EXPECT_EQ(program_.Do("alloc b plain 4M"), "2");  // Fails until it has a slot again.
  EXPECT_EQ(slot.used[0], 3 * kMiB);
  EXPECT_EQ(program_.Do("free a"), "0");
  EXPECT_EQ(slot.used[0], 3 * kMiB);
  // Afterwards it gets a slot with its present memory.
  ASSERT_EQ(program_.Do("launch 1"), "0");
  keeper_.Kill();
  keeper_.Start();
  EXPECT_EQ(keeper_.Await(share::Word::kHello).process, share::kNoSlot);
  keeper_.Await(share::Word::kHello);
  EXPECT_TRUE(Eventually([&] { return program_.Do("alloc c plain 4M") == "0"; }));
  EXPECT_EQ(keeper_.page().processes[1].used[0], 4 * kMiB);
  EXPECT_EQ(slot.used[0], 3 * kMiB);
}

// Happens if a keeper cannot read the tenant's old page. Slot and generation happen to be the same.
TEST_F(ShareTime, AProcessFollowsAKeeperToItsNewPage) {
  Begin();
  const std::uint64_t used = keeper_.Used();
  keeper_.SetGate(share::kShut);
  program_.Tell("launch 1");
  keeper_.Await(share::Word::kAsk);
  keeper_.Kill();
  keeper_.ReplacePage();
  EXPECT_EQ(keeper_.Used(), 0U);
  keeper_.Start();
  EXPECT_TRUE(Eventually([&] { return keeper_.Used() == used; }));
  EXPECT_EQ(keeper_.page().processes[0].generation, 1U);
  keeper_.SetGate(share::kOpen);
  EXPECT_EQ(program_.Answer(), "0");  // A thread waiting at the old page's gate follows the new page's gate.
  EXPECT_EQ(program_.Do("alloc b plain 16M"), "0");
  EXPECT_EQ(keeper_.Used(), used + 16 * kMiB);
}

TEST_F(ShareTime, AProcessWithoutASlotLogsTheReasonAndRetriesTwiceASecond) {
  share::Message refusal{};
  refusal.word = share::Word::kDenied;
  refusal.result = share::kPageBroken;
  std::snprintf(refusal.text, sizeof refusal.text, "the page was overwritten");
  keeper_.refusal = refusal;
  const auto start = std::chrono::steady_clock::now();
  program_.Tell("start");
  for (int hello = 0; hello < 3; ++hello) keeper_.Await(share::Word::kHello);
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(950));
  const std::string errors = program_.Errors();
  EXPECT_NE(errors.find(": the page was overwritten: it gets no GPU memory; start the job again\n"), std::string::npos)
      << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
}

// Uses a driver that does nothing, so that only the overhead remains; bench/shares measures it. Takes the minimum of
// several rounds, since load on the machine only adds time.
TEST(ShareCost, ALaunchThroughAnOpenGateSendsNoMessageToTheKeeper) {
  const World world;
  FakeKeeper keeper(world, 64 * kMiB);
  std::uint64_t launches = 0;
  const auto least = [&](const std::string& share) {
    Program program(world, Program::Options{share, "", DIVVY_IDLE_DRIVER_FOLDER});
    EXPECT_EQ(program.Do("init"), "0");
    std::uint64_t least_ns = ~std::uint64_t{0};
    for (int round = 0; round < 20; ++round) least_ns = std::min(least_ns, Numbers(program.Do("time 200000")).at(0));
    launches = keeper.page().processes[0].launches;
    return least_ns;
  };
  const std::uint64_t without = least("");
  const std::uint64_t with = least(keeper.Folder());
  std::printf("A launch: %llu ns without a share, %llu ns with: %lld ns added.\n",
              static_cast<unsigned long long>(without), static_cast<unsigned long long>(with),
              static_cast<long long>(with - without));
  EXPECT_EQ(launches, 4'000'000U) << "they did not go through the gate";
  EXPECT_LE(with, without + 3'000) << "as long as a system call";
}

}  // namespace share_time_test
}  // namespace divvy::interpose
