// Memory moves to the host and back while a program runs.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "platform/gpu/cuda_types.h"
#include "share_test_world.h"

namespace divvy::interpose {
namespace share_moving_test {

class ShareMoving : public ::testing::Test {
 protected:
  share::Message Evacuate() {
    keeper_.SetGate(share::kMoving);
    return keeper_.Command(0, share::Word::kEvacuate);
  }
  share::Message Return() {
    const share::Message done = keeper_.Command(0, share::Word::kReturn);
    keeper_.SetGate(share::kOpen);
    return done;
  }

  World world_;
  FakeKeeper keeper_{world_, 512 * kMiB};
  Program program_{world_, keeper_};
};

TEST_F(ShareMoving, MovedContentsKeepTheirAddresses) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc large plain 100M"), "0");
  ASSERT_EQ(program_.Do("alloc small plain 10K"), "0");
  ASSERT_EQ(program_.Do("alloc odd pitch 3M"), "0");
  ASSERT_EQ(program_.Do("fill large 5"), "0");
  ASSERT_EQ(program_.Do("fill small 6"), "0");
  const std::string address = program_.Do("address large");
  const std::uint64_t used = keeper_.Used();

  const share::Message gone = Evacuate();
  EXPECT_EQ(gone.result, 0) << gone.text;
  EXPECT_EQ(gone.bytes, used);
  EXPECT_GT(gone.nanoseconds, 0U);
  EXPECT_EQ(keeper_.Used(), 0U);

  const share::Message back = Return();
  EXPECT_EQ(back.result, 0) << back.text;
  EXPECT_EQ(back.bytes, used);
  EXPECT_EQ(keeper_.Used(), used);
  EXPECT_EQ(program_.Do("address large"), address);
  EXPECT_EQ(program_.Do("check large 5"), "0");
  EXPECT_EQ(program_.Do("check small 6"), "0");
  EXPECT_EQ(program_.Do("free large"), "0");
  EXPECT_EQ(program_.Do("free small"), "0");
  EXPECT_EQ(program_.Do("free odd"), "0");
  EXPECT_EQ(keeper_.Used(), 0U);
}

TEST_F(ShareMoving, ASecondMoveReusesTheHostMemoryOfTheFirst) {
  const auto kept = [this] {
    std::ifstream file("/proc/" + std::to_string(program_.pid()) + "/smaps_rollup");
    for (std::string word; file >> word;) {
      if (std::uint64_t kib = 0; word == "LazyFree:" && file >> kib) return kib << 10;
    }
    return std::uint64_t{0};
  };
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 60M"), "0");
  ASSERT_EQ(program_.Do("alloc b plain 40M"), "0");
  ASSERT_EQ(program_.Do("fill a 5"), "0");
  ASSERT_EQ(program_.Do("fill b 0"), "0");
  EXPECT_EQ(Evacuate().result, 0);
  EXPECT_EQ(kept(), 0U);
  EXPECT_EQ(Return().result, 0);
  EXPECT_GE(kept(), 60 * kMiB);
  EXPECT_LT(kept(), 70 * kMiB);  // Zero pages took no memory.

  // The second move has other contents: some pages become zero, and others are no longer zero.
  ASSERT_EQ(program_.Do("fill a 0"), "0");
  ASSERT_EQ(program_.Do("fill b 6"), "0");
  EXPECT_EQ(Evacuate().result, 0);
  EXPECT_EQ(Return().result, 0);
  EXPECT_EQ(program_.Do("check a 0"), "0");
  EXPECT_EQ(program_.Do("check b 6"), "0");
  EXPECT_GE(kept(), 100 * kMiB);

  EXPECT_EQ(program_.Do("free a"), "0");
  EXPECT_EQ(program_.Do("free b"), "0");
  EXPECT_EQ(kept(), 0U);
}

TEST_F(ShareMoving, FourThreadsThatLaunchAndCopyNoticeNoMove) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 32M"), "0");
  ASSERT_EQ(program_.Do("fill a 9"), "0");
  ASSERT_EQ(program_.Do("threads 4"), "0");
  for (int move = 0; move < 30; ++move) {
    const std::uint64_t rounds = Numbers(program_.Do("rounds")).at(0);
    ASSERT_TRUE(Eventually([&] { return Numbers(program_.Do("rounds")).at(0) > rounds + 4; }));
    const share::Message gone = Evacuate();
    ASSERT_EQ(gone.result, 0) << gone.text;
    EXPECT_GE(gone.bytes, 32 * kMiB);
    EXPECT_EQ(keeper_.Used(), 0U);
    const share::Message back = Return();
    ASSERT_EQ(back.result, 0) << back.text;
    EXPECT_EQ(back.bytes, gone.bytes);
  }
  const auto end = Numbers(program_.Do("stop"));
  ASSERT_EQ(end.size(), 2U);
  EXPECT_EQ(end[0], 0U) << "faults";
  EXPECT_GT(end[1], 100U) << "rounds";
  EXPECT_EQ(program_.Do("check a 9"), "0");
}

TEST_F(ShareMoving, CallsOfALostTenantFailInsteadOfWaiting) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 32M"), "0");
  ASSERT_EQ(program_.Do("fill a 9"), "0");
  ASSERT_EQ(Evacuate().result, 0);
  keeper_.SetGate(share::kLost);
  const std::string failed = std::to_string(cuda::kContextIsDestroyed);
  EXPECT_EQ(program_.Do("fill a 9"), failed);
  EXPECT_EQ(program_.Do("alloc b plain 64M"), failed);
  keeper_.SetGate(share::kOpen);
  EXPECT_EQ(program_.Do("alloc b plain 64M"), failed) << "for ever";
}

TEST_F(ShareMoving, ACeilingThatIsTooLowLeavesAllMemoryOnTheHost) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 100M"), "0");
  ASSERT_EQ(program_.Do("fill a 5"), "0");
  ASSERT_EQ(Evacuate().result, 0);
  keeper_.SetCeiling(10 * kMiB, 512 * kMiB);
  const share::Message refused = keeper_.Command(0, share::Word::kReturn);
  EXPECT_EQ(refused.result, 2);
  EXPECT_STREQ(refused.text, "the limit is lower than the memory that was moved out");
  EXPECT_EQ(refused.bytes, 100 * kMiB) << "what it needs";
  EXPECT_EQ(keeper_.Used(), 0U);
  keeper_.SetCeiling(512 * kMiB, 512 * kMiB);
  EXPECT_EQ(Return().result, 0);
  EXPECT_EQ(program_.Do("check a 5"), "0");
}

TEST_F(ShareMoving, ADeviceWithoutRoomLeavesAllMemoryOnTheHostUntilThereIsRoom) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 100M"), "0");
  ASSERT_EQ(program_.Do("alloc b plain 64K"), "0");
  ASSERT_EQ(program_.Do("fill a 5"), "0");
  ASSERT_EQ(program_.Do("fill b 6"), "0");
  ASSERT_EQ(Evacuate().result, 0);
  {
    Program other(world_, Program::Options{});  // Without a share: takes all free memory except 60 MiB.
    ASSERT_EQ(other.Do("init"), "0");
    const std::uint64_t free = Numbers(other.Do("info")).at(0);
    ASSERT_EQ(other.Do("alloc hog plain " + std::to_string((free - 60 * kMiB) >> 21 << 21)), "0");
    const share::Message refused = keeper_.Command(0, share::Word::kReturn);
    EXPECT_EQ(refused.result, 2) << refused.text;
    EXPECT_NE(std::string(refused.text).find("all memory is on the host as before"), std::string::npos) << refused.text;
    EXPECT_EQ(keeper_.Used(), 0U);
  }
  EXPECT_EQ(Return().result, 0);
  EXPECT_EQ(program_.Do("check a 5"), "0");
  EXPECT_EQ(program_.Do("check b 6"), "0");
}

TEST_F(ShareMoving, NoMoveStartsWhileTheGateIsOpen) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 4M"), "0");
  const share::Message refused = keeper_.Command(0, share::Word::kEvacuate);
  EXPECT_NE(refused.result, 0);
  EXPECT_STREQ(refused.text, "the gate is not kMoving or kParked");
  EXPECT_EQ(keeper_.Used(), 4 * kMiB);
}

// Answers the undo at once, so that the keeper does not consider the process lost.
TEST_F(ShareMoving, AMoveFailsCleanlyWhileWorkDoesNotEnd) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 4M"), "0");
  ASSERT_EQ(program_.Do("held"), "0");
  const share::Message refused = Evacuate();
  EXPECT_NE(refused.result, 0);
  EXPECT_STREQ(refused.text, "the program's work on the device did not end within 10 s");
  const share::Message back = Return();
  EXPECT_EQ(back.result, 0) << back.text;
  EXPECT_EQ(keeper_.Used(), 4 * kMiB);
  EXPECT_EQ(program_.Do("let-go"), "0");
  ASSERT_EQ(Evacuate().result, 0);
  EXPECT_EQ(Return().result, 0);
}

// CUDA looks up the GPUs at its start. So a tenant does not move then, and a parked tenant returns first.
TEST_F(ShareMoving, AProgramThatStartsWhileItsTenantIsParkedWaitsForTheWake) {
  keeper_.SetGate(share::kParked);
  program_.Tell("start");
  EXPECT_EQ(keeper_.Await(share::Word::kWake).device, 0U);
  keeper_.SetGate(share::kMoving);
  EXPECT_EQ(keeper_.Command(0, share::Word::kEvacuate).result, 0);
  EXPECT_EQ(keeper_.Command(0, share::Word::kReturn).result, 0);
  EXPECT_FALSE(program_.HasAnswer());
  keeper_.SetGate(share::kOpen);
  EXPECT_EQ(program_.Answer(), "0");
  EXPECT_EQ(program_.Do("init"), "0");
  EXPECT_EQ(program_.Do("alloc a plain 4M"), "0");
}

TEST_F(ShareMoving, AnAllocationOfAParkedProgramWaitsAndThenSucceeds) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 4M"), "0");
  ASSERT_EQ(Evacuate().result, 0);
  keeper_.SetGate(share::kParked);
  program_.Tell("alloc b plain 8M");
  keeper_.Await(share::Word::kWake);
  EXPECT_FALSE(program_.HasAnswer());
  ASSERT_EQ(Return().result, 0);
  EXPECT_EQ(program_.Answer(), "0");
  EXPECT_EQ(keeper_.Used(), 12 * kMiB);
}

TEST_F(ShareMoving, ShrinkReleasesUnusedPoolMemory) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 4M"), "0");
  ASSERT_EQ(program_.Do("alloc b kept 64M"), "0");
  ASSERT_EQ(program_.Do("free b"), "0");
  EXPECT_GE(keeper_.Used(), 68 * kMiB) << "the pool has it still";
  const share::Message done = keeper_.Command(0, share::Word::kShrink);
  EXPECT_EQ(done.result, 0);
  EXPECT_GE(done.bytes, 64 * kMiB);
  EXPECT_EQ(keeper_.Used(), 4 * kMiB);
}

TEST_F(ShareMoving, UnusedPoolMemoryDoesNotBlockOtherAllocations) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a kept 400M"), "0");
  ASSERT_EQ(program_.Do("free a"), "0");
  EXPECT_EQ(program_.Do("alloc b plain 400M"), "0");
  EXPECT_EQ(keeper_.Used(), 400 * kMiB);
  EXPECT_EQ(keeper_.CountOf(share::Word::kWant), 0U);
}

// An independent workload that verifies its memory.
TEST(ShareOfBurn, BurnKeepsItsMemoryThroughFiftyMoves) {
  const World world;
  FakeKeeper keeper(world, 512 * kMiB);
  int status = -1;
  std::string said;
  std::thread burn([&] {
    said = RunPreloaded(world, {DIVVY_BURN, "--gpu-seconds", "1.5", "--kernel", "200us", "--vram", "100M", "--check"},
                        keeper.Folder(), status);
  });
  keeper.Await(share::Word::kHello);
  // Wait until it has allocated all its memory: bytes that are only counted, while the call waits at the gate, would
  // not move.
  ASSERT_TRUE(Eventually([&] { return keeper.page().processes[0].launches > 5; }));
  int moves = 0;
  std::uint64_t launches = 0;
  for (; moves < 50 && status == -1; ++moves) {
    keeper.SetGate(share::kMoving);
    const share::Message gone = keeper.Command(0, share::Word::kEvacuate);
    ASSERT_EQ(gone.result, 0) << gone.text;
    EXPECT_GE(gone.bytes, 100 * kMiB);
    EXPECT_EQ(keeper.Used(), 0U);
    const share::Message back = keeper.Command(0, share::Word::kReturn);
    ASSERT_EQ(back.result, 0) << back.text;
    const std::uint64_t before = keeper.page().processes[0].launches;
    EXPECT_GE(before, launches);
    keeper.SetGate(share::kOpen);
    ASSERT_TRUE(Eventually([&] { return keeper.page().processes[0].launches > before + 5; }));
    launches = before;
  }
  EXPECT_EQ(moves, 50);
  burn.join();
  EXPECT_EQ(status, 0) << said;
}

TEST(ShareOfBurn, EveryAllocationTypeKeepsItsContentsWhenMoved) {
  for (const char* kind : {"malloc", "pitch", "async", "pool", "vmm", "managed", "array", "graph"}) {
    const World world;
    FakeKeeper keeper(world, 512 * kMiB);
    int status = -1;
    const std::string said =
        RunPreloaded(world, {DIVVY_BURN, "--gpu-seconds", "0.05", "--vram", "100M", "--check", "--alloc-kind", kind},
                     keeper.Folder(), status);
    EXPECT_EQ(status, 0) << kind << ": " << said;
    EXPECT_EQ(keeper.CountOf(share::Word::kHello), 1U) << kind;
    EXPECT_TRUE(Eventually([&] { return keeper.Used() == 0; })) << kind;
  }
}

TEST(ShareOfTwo, EachDeviceIsCountedGatedAndMovedSeparately) {
  const World world("2xA100-40GB");
  FakeKeeper keeper(world, 128 * kMiB);
  Program program(world, keeper);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 32M"), "0");
  ASSERT_EQ(program.Do("fill a 1"), "0");
  ASSERT_EQ(program.Do("device 1"), "0");
  ASSERT_EQ(program.Do("alloc b plain 64M"), "0");
  ASSERT_EQ(program.Do("fill b 2"), "0");
  EXPECT_EQ(keeper.Used(0), 32 * kMiB);
  EXPECT_EQ(keeper.Used(1), 64 * kMiB);
  EXPECT_EQ(program.Do("alloc c plain 100M"), "2");
  EXPECT_EQ(Numbers(program.Do("info")).at(0), 64 * kMiB);

  keeper.SetGate(share::kMoving, 1);
  const share::Message gone = keeper.Command(0, share::Word::kEvacuate, 1);
  EXPECT_EQ(gone.result, 0) << gone.text;
  EXPECT_EQ(gone.bytes, 64 * kMiB);
  EXPECT_EQ(keeper.Used(0), 32 * kMiB);
  EXPECT_EQ(keeper.Used(1), 0U);
  program.Tell("check b 2");
  EXPECT_TRUE(Eventually([&] { return __atomic_load_n(&keeper.page().processes[0].waiting, __ATOMIC_ACQUIRE) == 1; }));
  EXPECT_FALSE(program.HasAnswer());
  EXPECT_EQ(keeper.Command(0, share::Word::kReturn, 1).result, 0);
  keeper.SetGate(share::kOpen, 1);
  EXPECT_EQ(program.Answer(), "0");
  EXPECT_EQ(program.Do("free b"), "0");
  EXPECT_EQ(program.Do("device 0"), "0");
  EXPECT_EQ(program.Do("check a 1"), "0");
  EXPECT_EQ(program.Do("free a"), "0");
  EXPECT_EQ(keeper.Used(0) + keeper.Used(1), 0U);
}

// The location of the memory decides, not the current context.
TEST(ShareOfTwo, PoolsAndGraphsCountOnTheDeviceOfTheirMemory) {
  const World world("2xA100-40GB");
  FakeKeeper keeper(world, 128 * kMiB);
  Program program(world, keeper);
  ASSERT_EQ(program.Do("init"), "0");
  for (const char* kind : {"pool1", "graph1"}) {
    ASSERT_EQ(program.Do(std::string("alloc a ") + kind + " 32M"), "0") << kind;
    EXPECT_EQ(keeper.Used(0), 0U) << kind;
    EXPECT_EQ(keeper.Used(1), 32 * kMiB) << kind;
    EXPECT_EQ(program.Do(std::string("alloc b ") + kind + " 100M"), "2") << kind;
    EXPECT_EQ(program.Do("free a"), "0") << kind;
    EXPECT_EQ(keeper.Used(0), 0U) << kind;
    EXPECT_EQ(keeper.Used(1), 0U) << kind;
  }
  EXPECT_EQ(program.Do("alloc c plain 128M"), "0");  // All of the memory is available again.
}

TEST(ShareOfTwo, PeerAccessIsFlaggedAndCoversExistingAndNewMemory) {
  const World world("2xA100-40GB");
  FakeKeeper keeper(world, 128 * kMiB);
  Program program(world, keeper);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 4M"), "0");
  ASSERT_EQ(program.Do("device 1"), "0");
  ASSERT_EQ(program.Do("peer 0"), "0");
  EXPECT_EQ(keeper.page().processes[0].flags & share::kPeers, share::kPeers);
  EXPECT_EQ(program.Do("rights a 1"), "3");
  ASSERT_EQ(program.Do("device 0"), "0");
  ASSERT_EQ(program.Do("alloc b plain 4M"), "0");
  EXPECT_EQ(program.Do("rights b 1"), "3");
}

// The library moves the data, which is fast, and the driver saves the rest of the process (as GCR does). Nothing is
// left on the device, and its next call is still noticed.
TEST_F(ShareMoving, AProcessCheckpointedByTheDriverAfterItsDataWasMovedComesBackWhole) {
  Program helper(world_, Program::Options{});
  ASSERT_EQ(helper.Do("init"), "0");
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 100M"), "0");
  ASSERT_EQ(program_.Do("fill a 8"), "0");
  const std::string driver = "checkpoint " + std::to_string(program_.pid());
  ASSERT_EQ(Evacuate().result, 0);
  ASSERT_EQ(helper.Do(driver + " lock"), "0");
  ASSERT_EQ(helper.Do(driver + " save"), "0");
  keeper_.SetGate(share::kParked);

  program_.Tell("current");
  keeper_.Await(share::Word::kWake);
  EXPECT_FALSE(program_.HasAnswer());
  ASSERT_EQ(helper.Do(driver + " restore"), "0");
  ASSERT_EQ(helper.Do(driver + " unlock"), "0");
  const share::Message back = Return();
  EXPECT_EQ(back.result, 0) << back.text;
  EXPECT_EQ(program_.Answer(), "0");
  EXPECT_EQ(program_.Do("check a 8"), "0");
  EXPECT_EQ(program_.Do("launch 2"), "0");
  EXPECT_EQ(program_.Do("sync"), "0");
}

// The first call after an idle hour can be any function.
TEST_F(ShareMoving, AQueryAlsoWakesAParkedProgram) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(Evacuate().result, 0);
  keeper_.SetGate(share::kParked);
  program_.Tell("current");
  keeper_.Await(share::Word::kWake);
  EXPECT_FALSE(program_.HasAnswer());
  ASSERT_EQ(Return().result, 0);
  EXPECT_EQ(program_.Answer(), "0");
}

}  // namespace share_moving_test
}  // namespace divvy::interpose
