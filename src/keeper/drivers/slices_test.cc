// Tenants with MIG instances on stand-in GPUs. Instances are created before the job starts, and destroyed afterwards,
// also by the successor of a killed keeper. Instances of other programs are not touched.
#include "keeper/drivers/slices_test_world.h"

namespace divvy::keeper {
namespace slices_test {

TEST_F(KeptSlices, AreCreatedAndDestroyedAndMigModeIsSwitched) {
  EXPECT_NE(world_->node->Ask(Add(1, kSmall)), "") << "it may not switch the mode";
  MaySwitch();
  const wire::KeeperAdded small = Added(1, kSmall);
  ASSERT_EQ(small.uuids.size(), 1U);
  EXPECT_EQ(small.environment.front(), "CUDA_VISIBLE_DEVICES=" + small.uuids.front());
  const wire::KeeperAdded large = Added(2, kLarge);
  EXPECT_NE(large.uuids, small.uuids);
  EXPECT_EQ(Added(1, kSmall).uuids, small.uuids) << "said twice, it is made once";
  EXPECT_EQ(Count(), 2U);
  const wire::KeptTenant shown = world_->node->StateOf(2);
  EXPECT_EQ(shown.mechanism, "enforced by MIG");
  EXPECT_FALSE(shown.is_movable);
  ASSERT_EQ(shown.shares.size(), 1U);
  EXPECT_GT(shown.shares.front().limit, Bytes(38 * kGiB));
  EXPECT_TRUE(shown.shares.front().is_compute_unknown) << "not measured is not 0";
  EXPECT_EQ(shown.shares.front().compute_request, GpuShare(5'000)) << "four of eight memory slices";
  EXPECT_NE(world_->Command(2, "park"), "");
  EXPECT_EQ(world_->Command(1, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return Count() == 1; }));
  EXPECT_TRUE(mig_->IsOn(0).value());
  EXPECT_EQ(world_->Command(2, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return !mig_->IsOn(0).value(); })) << "the GPU is whole again";
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(world_->directory + "/slices"); }));
}

TEST_F(KeptSlices, RefusesAProfileThatWouldBeAnotherLineOfTheRecord) {
  MaySwitch();
  GpuSlice slice = kSmall;
  slice.profile += " 1 1 0 -\nswitched GPU-of-another";
  EXPECT_NE(world_->node->Ask(Add(1, slice)).find("is not a MIG profile"), std::string::npos);
  EXPECT_EQ(Count(), 0U);
}

TEST_F(KeptSlices, AWholeGpuJobWaitsUntilTheLastSliceIsGone) {
  MaySwitch();
  Added(1, kSmall);
  wire::KeeperRequest whole;
  whole.take_whole = wire::KeeperAcquireExclusive{JobId(9), GpuSet::Of({0})};
  const std::uint64_t asked = world_->node->Send(whole);
  EXPECT_FALSE(world_->node->AnswerTo(asked, 50ms));
  EXPECT_EQ(world_->Command(1, "remove"), "");
  const auto answer = world_->node->AnswerTo(asked);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "");
  EXPECT_FALSE(mig_->IsOn(0).value()) << "nothing of MIG is left when it begins";
}

TEST_F(KeptSlices, SurviveAKilledKeeper) {
  MaySwitch();
  const std::string uuid = Added(1, kSmall).uuids.front();
  world_->Kill();
  EXPECT_EQ(Count(), 1U);
  world_->Start();
  EXPECT_EQ(Added(1, kSmall).uuids.front(), uuid);
  EXPECT_EQ(Count(), 1U);
}

// The record was written, and the keeper died before or after the driver created the instance. In both cases nothing
// remains if no job uses it.
TEST_F(KeptSlices, AHalfCreatedInstanceOfAKilledKeeperIsDestroyed) {
  const std::string gpu = mig_->UuidOf(0).value();
  for (const bool was_made : {false, true}) {
    world_->Kill();
    ASSERT_TRUE(WriteSliceRecord(world_->directory, {{{gpu, 5, 1, kSmall, ""}}, {gpu}}));
    ASSERT_TRUE(mig_->Switch(0, true));
    if (was_made) {
      ASSERT_TRUE(mig_->Make(0, kSmall));
    }
    world_->Start();
    EXPECT_TRUE(Eventually([&] { return Count() == 0 && !mig_->IsOn(0).value(); })) << was_made;
    EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(world_->directory + "/slices"); }));
  }
}

TEST_F(KeptSlices, ForeignInstancesAreNotTouched) {
  auto others = EmulatedWorld::Open(EmulatedWorldPath(gpus_));
  ASSERT_TRUE(others);
  ASSERT_TRUE(others->SetMig(0, true));
  ASSERT_TRUE(others->MakeSlice(0, 1, 1, 6));
  MaySwitch();
  EXPECT_NE(world_->node->Ask(Add(1, kSmall)), "") << "somebody has that place";
  Added(2, kLarge);
  EXPECT_EQ(Count(), 2U);
  world_->Kill();
  world_->Start();
  MaySwitch();
  EXPECT_EQ(world_->Command(2, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return Count() == 1; }));
  EXPECT_TRUE(mig_->IsOn(0).value()) << "and so is their mode";
}

}  // namespace slices_test
}  // namespace divvy::keeper
