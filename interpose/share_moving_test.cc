// Memory that goes to the host and comes back, under a program that runs.
#include <gtest/gtest.h>

#include "share_test_world.h"

namespace divvy::interpose {
namespace {

class ShareMoving : public ::testing::Test {
 protected:
  share::Message Evacuate() {
    keeper_.SetGate(share::kMoving);
    return keeper_.Order(0, share::Word::kEvacuate);
  }
  share::Message Return() {
    const share::Message done = keeper_.Order(0, share::Word::kReturn);
    keeper_.SetGate(share::kOpen);
    return done;
  }

  World world_;
  FakeKeeper keeper_{world_, 512 * kMiB};
  Program program_{world_, keeper_};
};

TEST_F(ShareMoving, ContentsAreAtTheSameAddressesAfter) {
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

TEST_F(ShareMoving, FourThreadsThatLaunchAndCopyNoticeNothing) {
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

TEST_F(ShareMoving, ACeilingThatIsTooLowLeavesAllOnTheHost) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 100M"), "0");
  ASSERT_EQ(program_.Do("fill a 5"), "0");
  ASSERT_EQ(Evacuate().result, 0);
  keeper_.SetCeiling(10 * kMiB, 512 * kMiB);
  const share::Message refused = keeper_.Order(0, share::Word::kReturn);
  EXPECT_EQ(refused.result, 2);
  EXPECT_STREQ(refused.text, "the ceiling is lower than what was taken out");
  EXPECT_EQ(keeper_.Used(), 0U);
  keeper_.SetCeiling(512 * kMiB, 512 * kMiB);
  EXPECT_EQ(Return().result, 0);
  EXPECT_EQ(program_.Do("check a 5"), "0");
}

TEST_F(ShareMoving, AnOpenGateIsNoTimeToMove) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 4M"), "0");
  const share::Message refused = keeper_.Order(0, share::Word::kEvacuate);
  EXPECT_NE(refused.result, 0);
  EXPECT_STREQ(refused.text, "the gate is not kMoving or kParked");
  EXPECT_EQ(keeper_.Used(), 4 * kMiB);
}

TEST_F(ShareMoving, AParkedProgramThatAllocatesWaitsAndThenHasIt) {
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

TEST_F(ShareMoving, ShrinkGivesBackWhatThePoolsHold) {
  ASSERT_EQ(program_.Do("init"), "0");
  ASSERT_EQ(program_.Do("alloc a plain 4M"), "0");
  const share::Message done = keeper_.Order(0, share::Word::kShrink);
  EXPECT_EQ(done.result, 0);
  EXPECT_EQ(done.bytes, 0U);
  EXPECT_EQ(keeper_.Used(), 4 * kMiB);
}

}  // namespace
}  // namespace divvy::interpose
