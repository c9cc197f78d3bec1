// Everything is counted, and nothing exceeds the ceiling.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "share_test_world.h"

namespace divvy::interpose {
namespace share_memory_test {

constexpr std::uint64_t kCeiling = 256 * kMiB;

class ShareMemory : public ::testing::Test {
 protected:
  World world_;
  FakeKeeper keeper_{world_, kCeiling};
};

struct Row {
  const char* kind;
  std::uint32_t flag;  // Why it cannot be moved; 0: it can.
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.kind; }

class EveryAllocationCall : public ShareMemory, public ::testing::WithParamInterface<Row> {};

TEST_P(EveryAllocationCall, IsCountedRefusedAboveTheCeilingAndFreed) {
  Program program(world_, keeper_);
  const std::string kind = GetParam().kind;
  ASSERT_EQ(program.Do("init"), "0");
  const std::uint64_t before = keeper_.Used();
  EXPECT_EQ(program.Do("alloc a " + kind + " 64M"), "0");
  EXPECT_GE(keeper_.Used(), before + 64 * kMiB) << "not counted";
  EXPECT_LE(keeper_.Used(), before + 66 * kMiB);
  EXPECT_EQ(keeper_.page().processes[0].flags & GetParam().flag, GetParam().flag);
  EXPECT_EQ(program.Do("alloc b " + kind + " 250M"), "2") << "CUDA_ERROR_OUT_OF_MEMORY";
  EXPECT_LE(keeper_.Used(), kCeiling);
  EXPECT_EQ(program.Do("free a"), "0");
  EXPECT_TRUE(Eventually([&] { return keeper_.Used() == before; })) << keeper_.Used();
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryAllocationCall,
                         ::testing::Values(Row{"plain", 0}, Row{"pitch", 0}, Row{"managed", share::kManaged},
                                           Row{"async", share::kPlainMemory}, Row{"pool", share::kPlainMemory},
                                           Row{"array", share::kPlainMemory}, Row{"mipmap", share::kPlainMemory},
                                           Row{"mapping", share::kOwnMapping}, Row{"external", share::kExternal},
                                           Row{"import", share::kIpc}, Row{"graph", share::kPlainMemory}),
                         [](const auto& row) { return std::string(row.param.kind); });

class EveryEntryPoint : public ShareMemory, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryEntryPoint, ReturnsTheFunctionOfTheLibrary) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do(std::string("init ") + GetParam()), "0");
  EXPECT_EQ(program.Do("alloc a plain 64M"), "0");
  EXPECT_EQ(keeper_.Used(), 64 * kMiB);
  EXPECT_EQ(program.Do("alloc b async 300M"), "2");
  EXPECT_EQ(program.Do("fill a 7"), "0");
  EXPECT_EQ(program.Do("launch 3"), "0");
  EXPECT_EQ(program.Do("sync"), "0");
  EXPECT_EQ(program.Do("check a 7"), "0");
  EXPECT_EQ(keeper_.page().processes[0].launches, 3U);
}

INSTANTIATE_TEST_SUITE_P(EntryPoints, EveryEntryPoint,
                         ::testing::Values("dlsym", "direct", "default", "next", "proc", "proc-thread", "ptsz"),
                         [](const auto& entry_point) {
                           std::string name = entry_point.param;
                           for (char& letter : name) letter = letter == '-' ? '_' : letter;
                           return name;
                         });

TEST_F(ShareMemory, SmallAllocationsShareAChunkAndFreeIt) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  for (int i = 0; i < 100; ++i) ASSERT_EQ(program.Do("alloc s" + std::to_string(i) + " plain 4K"), "0");
  EXPECT_EQ(keeper_.Used(), 2 * kMiB);
  ASSERT_EQ(program.Do("fill s7 1"), "0");
  ASSERT_EQ(program.Do("fill s8 2"), "0");
  EXPECT_EQ(program.Do("check s7 1"), "0");
  EXPECT_EQ(program.Do("range s7 100"), "0 4096");
  for (int i = 0; i < 100; ++i) ASSERT_EQ(program.Do("free s" + std::to_string(i)), "0");
  EXPECT_EQ(keeper_.Used(), 0U);
}

TEST_F(ShareMemory, FreeingAnUnknownPointerReturnsTheDriversError) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("free-unknown"), "1");
}

TEST_F(ShareMemory, AContextResetFreesAllCountedMemory) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 64M"), "0");
  ASSERT_EQ(program.Do("alloc b plain 4K"), "0");
  ASSERT_EQ(program.Do("alloc c array 16M"), "0");
  EXPECT_EQ(program.Do("reset"), "0");
  EXPECT_EQ(keeper_.Used(), 0U);
}

TEST_F(ShareMemory, EightRacingProcessesNeverExceedTheCeiling) {
  std::vector<std::unique_ptr<Program>> programs;
  for (int i = 0; i < 8; ++i) programs.push_back(std::make_unique<Program>(world_, keeper_));
  for (auto& program : programs) ASSERT_EQ(program->Do("init"), "0");
  for (auto& program : programs) program->Tell("race 300 30M");
  std::uint64_t most = 0;
  std::uint64_t refused = 0;
  for (auto& program : programs) {
    ASSERT_TRUE(Eventually([&] {
      most = std::max(most, keeper_.Used());
      return program->HasAnswer();
    }));
    const auto numbers = Numbers(program->Answer());
    ASSERT_EQ(numbers.size(), 2U);
    EXPECT_EQ(numbers[0], 0U) << "neither success nor out of memory";
    refused += numbers[1];
  }
  EXPECT_GT(refused, 0U) << "they did not race for anything";
  EXPECT_LE(most, kCeiling);
  EXPECT_GT(most, kCeiling / 2);
  EXPECT_EQ(keeper_.Used(), 0U);
}

TEST_F(ShareMemory, ALoweredLimitKeepsExistingMemoryAndRefusesMore) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 128M"), "0");
  keeper_.SetCeiling(128 * kMiB, 64 * kMiB);
  EXPECT_EQ(program.Do("alloc b plain 4M"), "2");
  EXPECT_EQ(program.Do("fill a 3"), "0");
  EXPECT_EQ(program.Do("check a 3"), "0");
  EXPECT_EQ(program.Do("free a"), "0");
  EXPECT_EQ(program.Do("alloc b plain 4M"), "0");
}

TEST_F(ShareMemory, RequestsMoreMemoryUpToTheLimit) {
  keeper_.SetCeiling(32 * kMiB, kCeiling);
  keeper_.on_want = [&](const share::Message& want) {
    keeper_.SetCeiling(keeper_.Used() + want.bytes, kCeiling);
    return true;
  };
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("alloc a plain 100M"), "0");
  EXPECT_EQ(keeper_.CountOf(share::Word::kWant), 1U);
  EXPECT_EQ(program.Do("alloc b plain 200M"), "2") << "above the limit";
  EXPECT_EQ(keeper_.CountOf(share::Word::kWant), 1U) << "nobody need be asked for what is above the limit";
}

TEST_F(ShareMemory, ADeniedRequestForMemoryReturnsOutOfMemory) {
  keeper_.SetCeiling(32 * kMiB, kCeiling);
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("alloc a plain 100M"), "2");
  EXPECT_EQ(keeper_.CountOf(share::Word::kWant), 1U);
}

TEST_F(ShareMemory, ARequestForMemorySurvivesAKeeperRestart) {
  keeper_.SetCeiling(32 * kMiB, kCeiling);
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  keeper_.Kill();
  program.Tell("alloc a plain 100M");
  EXPECT_FALSE(program.HasAnswer());
  keeper_.on_want = [&](const share::Message& want) {
    keeper_.SetCeiling(keeper_.Used() + want.bytes, kCeiling);
    return true;
  };
  keeper_.Start();
  EXPECT_EQ(program.Answer(), "0");
  EXPECT_EQ(keeper_.Used(), 100 * kMiB);
}

// Killed at any point: while holding the page's lock, between counting and allocating, or in the driver.
TEST_F(ShareMemory, FiftyProcessesKilledAnywhereLeaveExactCounts) {
  Program witness(world_, keeper_);
  ASSERT_EQ(witness.Do("init"), "0");
  ASSERT_EQ(witness.Do("alloc a plain 64M"), "0");
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    Program program(world_, keeper_);
    ASSERT_EQ(program.Do("init"), "0");
    program.Tell("race 1000000 1M");
    const std::uint64_t at = 64 * kMiB + random() % 8 * kMiB;
    std::uint64_t looks = random() % 20'000;
    ASSERT_TRUE(Eventually([&] { return keeper_.Used() > at || (keeper_.Used() > 64 * kMiB && looks-- == 0); }));
    program.Kill();
    ASSERT_TRUE(Eventually([&] { return keeper_.Used() == 64 * kMiB; })) << keeper_.Used() << " in round " << round;
  }
  EXPECT_EQ(witness.Do("alloc b plain 192M"), "0");
  EXPECT_EQ(witness.Do("free b"), "0");
  EXPECT_EQ(witness.Do("free a"), "0");
  EXPECT_EQ(keeper_.Used(), 0U);
}

TEST_F(ShareMemory, MemoryOfADeadProcessIsFree) {
  Program other(world_, keeper_);
  {
    Program program(world_, keeper_);
    ASSERT_EQ(program.Do("init"), "0");
    ASSERT_EQ(program.Do("alloc a plain 200M"), "0");
    ASSERT_EQ(other.Do("init"), "0");
    EXPECT_EQ(other.Do("alloc a plain 100M"), "2");
  }  // kill -9
  EXPECT_TRUE(Eventually([&] { return keeper_.Used() == 0; }));
  EXPECT_EQ(other.Do("alloc a plain 100M"), "0");
}

TEST_F(ShareMemory, AForkedChildHasASlotOfItsOwn) {
  Program program(world_, keeper_);
  EXPECT_EQ(program.Do("child init"), "0") << "a child of a parent that has not begun may begin";
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 64M"), "0");
  EXPECT_NE(program.Do("child alloc b plain 4M"), "0") << "CUDA does not work in a child of a parent that has begun";
  EXPECT_EQ(program.Do("alloc c plain 4M"), "0");
  EXPECT_TRUE(Eventually([&] { return keeper_.Used() == 68 * kMiB; })) << keeper_.Used();
}

TEST_F(ShareMemory, AProgramStartedByExecBeginsWithNoMemory) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 64M"), "0");
  program.Tell("exec");
  EXPECT_TRUE(Eventually([&] { return keeper_.Used() == 0; }));  // The exec closes its link.
  EXPECT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("alloc a plain 64M"), "0");
  EXPECT_EQ(keeper_.Used(), 64 * kMiB);
}

TEST_F(ShareMemory, ReportsTheTenantsLimitAsTheGpusMemory) {
  Program program(world_, keeper_);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 64M"), "0");
  EXPECT_EQ(Numbers(program.Do("info")), (std::vector<std::uint64_t>{192 * kMiB, kCeiling, kCeiling}));
  EXPECT_EQ(Numbers(program.Do("nvml")), (std::vector<std::uint64_t>{64 * kMiB, kCeiling, 64 * kMiB, kCeiling}));
}

TEST_F(ShareMemory, ImportedMemoryIsCountedWhileItIsOpen) {
  Program owner(world_, Program::Options{keeper_.Folder(), "plain"});
  Program guest(world_, keeper_);
  ASSERT_EQ(owner.Do("init"), "0");
  ASSERT_EQ(guest.Do("init"), "0");
  ASSERT_EQ(owner.Do("alloc a plain 64M"), "0");
  ASSERT_EQ(owner.Do("fill a 4"), "0");
  const std::string answer = owner.Do("ipc-get a");
  ASSERT_EQ(answer.substr(0, 2), "0 ");
  ASSERT_EQ(guest.Do("ipc-open b 64M " + answer.substr(2)), "0");
  EXPECT_EQ(guest.Do("check b 4"), "0");
  EXPECT_EQ(keeper_.page().processes[0].flags & share::kIpc, share::kIpc);
  EXPECT_EQ(keeper_.page().processes[1].flags & share::kIpc, share::kIpc);
  EXPECT_GE(keeper_.page().processes[1].used[0], 64 * kMiB);
  EXPECT_EQ(guest.Do("free b"), "0");
  EXPECT_EQ(keeper_.page().processes[1].used[0], 0U);
}

TEST_F(ShareMemory, PlainMemoryOnRequestIsCountedAndFlagged) {
  Program program(world_, Program::Options{keeper_.Folder(), "plain"});
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("alloc a plain 64M"), "0");
  EXPECT_EQ(keeper_.Used(), 64 * kMiB);
  EXPECT_EQ(program.Do("alloc b plain 200M"), "2");
  EXPECT_EQ(keeper_.page().processes[0].flags & share::kPlainMemory, share::kPlainMemory);
  EXPECT_EQ(program.Do("free a"), "0");
  EXPECT_EQ(keeper_.Used(), 0U);
}

// The time is not quadratic in the number of allocations.
TEST(ShareMemoryOfMany, DestroyingAContextTakesNoLongerThanFillingIt) {
  const World world;
  FakeKeeper keeper(world, 512 * kMiB);
  for (const char* memory : {"", "plain"}) {
    Program program(world, Program::Options{keeper.Folder(), memory, ""});
    ASSERT_EQ(program.Do("init"), "0");
    const std::uint64_t took =
        Numbers(program.Do(std::string("many ") + (*memory == 0 ? "40000 256" : "3000 64K"))).at(0);
    ASSERT_GT(took, 0U);
    EXPECT_LT(Numbers(program.Do("time-reset")).at(0), 5 * took + 100'000);
    EXPECT_EQ(keeper.Used(), 0U);
    program.Kill();
    EXPECT_TRUE(Eventually([&] { return keeper.page().processes[0].is_taken == 0; }));
  }
}

}  // namespace share_memory_test
}  // namespace divvy::interpose
