// Which calls bind a process to its GPU, and which do not.
#include <gtest/gtest.h>

#include <algorithm>

#include "share_test_world.h"

namespace divvy::interpose {
namespace share_pinning_test {

class SharePinning : public ::testing::Test {
 protected:
  std::uint32_t Flags() { return __atomic_load_n(&keeper_.page().processes[0].flags, __ATOMIC_ACQUIRE); }

  World world_;
  FakeKeeper keeper_{world_, 64 * kMiB};
};

class ShareNccl : public SharePinning, public ::testing::WithParamInterface<const char*> {};

// Every program that imports PyTorch loads NCCL.
TEST_P(ShareNccl, ACommunicatorCountsOnceItHasSeveralRanks) {
  Program program(world_, keeper_);
  const std::string make = std::string("communicator ") + GetParam();
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("nccl"), "0");
  EXPECT_EQ(program.Do(make + " 1"), "0");
  EXPECT_EQ(Flags(), 0U);
  EXPECT_EQ(program.Do(make + " 2"), "0");
  EXPECT_EQ(Flags(), share::kCollectives);
}
INSTANTIATE_TEST_SUITE_P(EntryPoints, ShareNccl, ::testing::Values("rank", "config", "scalable", "all"),
                         [](const auto& maker) { return std::string(maker.param); });

TEST_F(SharePinning, ACommunicatorOfAProgramLinkedWithNcclCounts) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("communicator rank 1 linked"), "5");  // NCCL is not loaded yet.
  ASSERT_EQ(program.Do("nccl"), "0");
  EXPECT_EQ(program.Do("communicator rank 1 linked"), "0");
  EXPECT_EQ(Flags(), 0U);
  EXPECT_EQ(program.Do("communicator rank 2 linked"), "0");
  EXPECT_EQ(Flags(), share::kCollectives);
}

TEST_F(SharePinning, NcclIsUnchangedForAJobWithoutAGpuFraction) {
  Program program(world_, Program::Options{});
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("nccl"), "0");
  EXPECT_EQ(program.Do("communicator rank 2"), "0");
  EXPECT_EQ(program.Do("communicator rank 2 linked"), "0");
}

TEST_F(SharePinning, RetainingAnAllocationHandlePinsTheProcess) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 4M"), "0");
  EXPECT_EQ(Flags(), 0U);
  ASSERT_EQ(program.Do("retain a"), "0");
  EXPECT_EQ(Flags(), share::kExternal);
}

TEST_F(SharePinning, ExportableMemoryIsMovableUntilItIsExported) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a exportable 4M"), "0");
  EXPECT_EQ(Flags(), share::kOwnMapping);
  ASSERT_EQ(program.Do("export a"), "0");
  EXPECT_EQ(Flags(), share::kOwnMapping | share::kIpc | share::kExternal);
}

TEST_F(SharePinning, CudaIpcOfMovableMemoryIsRefusedWithARemedy) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 4M"), "0");
  EXPECT_NE(program.Do("ipc-get a").substr(0, 2), "0 ");
  EXPECT_NE(program.Do("ipc-get a").substr(0, 2), "0 ");
  const std::string errors = program.Errors();
  EXPECT_NE(errors.find("set DIVVY_SHARE_MEMORY=plain in the job's environment"), std::string::npos) << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  EXPECT_EQ(Flags(), 0U);  // None of its memory is shared with another process.
}

// The process may be off its planned GPU and use borrowed memory. This is the last chance to change that.
TEST_F(SharePinning, TheFirstPinningCallWaitsForTheKeeperWhichMayMoveTheProcess) {
  Program program(world_, keeper_);
  keeper_.holds_pins = true;
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 4M"), "0");
  ASSERT_EQ(program.Do("fill a 3"), "0");
  program.Tell("alloc b managed 4M");
  share::Message pin = keeper_.Await(share::Word::kPin);
  EXPECT_EQ(pin.bytes, share::kManaged);
  EXPECT_EQ(Flags(), 0U);
  keeper_.SetGate(share::kMoving);
  EXPECT_EQ(keeper_.Command(0, share::Word::kEvacuate).result, 0);
  EXPECT_EQ(keeper_.Command(0, share::Word::kReturn).result, 0);
  keeper_.SetGate(share::kOpen);
  EXPECT_FALSE(program.HasAnswer());
  pin.word = share::Word::kGranted;
  keeper_.Send(0, pin);
  EXPECT_EQ(program.Answer(), "0");
  EXPECT_EQ(Flags(), share::kManaged);
  EXPECT_EQ(program.Do("alloc c managed 4M"), "0");
  EXPECT_EQ(program.Do("retain a"), "0");
  EXPECT_EQ(keeper_.CountOf(share::Word::kPin), 1U) << "it is pinned already";
  EXPECT_EQ(program.Do("check a 3"), "0");
}

TEST_F(SharePinning, WithoutAKeeperPinningDoesNotWait) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  keeper_.Kill();
  EXPECT_EQ(program.Do("alloc b managed 4M"), "0");
  EXPECT_EQ(Flags(), share::kManaged);
}

}  // namespace share_pinning_test
}  // namespace divvy::interpose
