// MIG instances that cannot be created, found again or destroyed: nothing is forgotten, and waiting jobs report the
// reason.
#include "keeper/drivers/slices_test_world.h"

namespace divvy::keeper {
namespace slices_left_test {

TEST_F(KeptSlices, AGpuStuckInMigModeIsReportedToTheJobThatWaitsForIt) {
  MaySwitch();
  Added(1, kSmall);
  ASSERT_TRUE(gpu_->AddProcess(0, ::getpid(), Bytes(kGiB)));
  EXPECT_EQ(world_->Command(1, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return Has(TroubleOfGpu(), "its MIG mode cannot be switched off"); })) << TroubleOfGpu();
  EXPECT_TRUE(Has(TroubleOfGpu(), "end the programs that hold the GPU open")) << TroubleOfGpu();
  EXPECT_FALSE(world_->node->State().gpus.front().is_stuck) << "slices can still be had of it";
  wire::KeeperRequest whole;
  whole.take_whole = wire::KeeperAcquireExclusive{JobId(9), GpuSet::Of({0})};
  const std::uint64_t asked = world_->node->Send(whole);
  EXPECT_TRUE(Has(WhyWaits(9), "GPU 0: its MIG mode cannot be switched off")) << WhyWaits(9);
  // A slice does not need the whole GPU.
  Added(2, kLarge);
  EXPECT_EQ(world_->Command(2, "remove"), "");
  ASSERT_TRUE(gpu_->RemoveProcess(0, ::getpid()));
  const auto answer = world_->node->AnswerTo(asked, 10s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "");
  EXPECT_EQ(TroubleOfGpu(), "");
}

TEST_F(KeptSlices, AddingASliceAgainBeforeItsRemovalIsAnswered) {
  MaySwitch();
  Added(1, kSmall);
  ASSERT_TRUE(gpu_->AddProcess(0, ::getpid(), Bytes(kGiB)));
  EXPECT_EQ(world_->Command(1, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return !TroubleOfGpu().empty(); }));
  const std::uint64_t asked = world_->node->Send(Add(1, kSmall));
  EXPECT_FALSE(world_->node->AnswerTo(asked, 50ms));
  ASSERT_TRUE(gpu_->RemoveProcess(0, ::getpid()));
  const auto answer = world_->node->AnswerTo(asked, 10s);
  ASSERT_TRUE(answer && answer->added);
  EXPECT_EQ(Count(), 1U);
  EXPECT_EQ(world_->node->StateOf(1).mechanism, "enforced by MIG");
}

TEST_F(KeptSlices, WithoutADriverAPendingRemovalIsReportedAndDoneLater) {
  MaySwitch();
  Added(1, kSmall);
  world_->Kill();
  TakeDriver();
  world_->Start();
  MaySwitch();
  EXPECT_TRUE(Eventually([&] { return Has(world_->node->StateOf(1).trouble, "has not been found yet"); }))
      << world_->node->StateOf(1).trouble;
  EXPECT_EQ(world_->Command(1, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return Has(TroubleOfGpu(), "the MIG instance of job 1 cannot be destroyed"); }))
      << TroubleOfGpu();
  BringDriver();
  EXPECT_TRUE(Eventually([&] { return Count() == 0 && !mig_->IsOn(0).value(); }, 10s));
  EXPECT_TRUE(Eventually([&] { return TroubleOfGpu().empty(); })) << TroubleOfGpu();
}

TEST_F(KeptSlices, AMissingInstanceIsNotRecreatedForARunningJob) {
  MaySwitch();
  Added(1, kSmall);
  world_->Kill();
  ASSERT_TRUE(mig_->Unmake(0, mig_->Instances(0)->front().id));
  world_->Start();
  MaySwitch();
  EXPECT_TRUE(Eventually([&] { return Has(world_->node->StateOf(1).trouble, "is not on GPU 0 any more"); }));
  EXPECT_TRUE(Has(world_->node->StateOf(1).trouble, "divvy requeue"));
  EXPECT_TRUE(Has(world_->node->Ask(Add(1, kSmall)), "is not on GPU 0 any more"));
  EXPECT_EQ(Count(), 0U);
  EXPECT_EQ(world_->Command(1, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return !mig_->IsOn(0).value(); }));
}

TEST_F(KeptSlices, AJobWhoseInstanceWasDestroyedIsNotified) {
  MaySwitch();
  Added(1, kSmall);
  ASSERT_TRUE(mig_->Unmake(0, mig_->Instances(0)->front().id));
  EXPECT_TRUE(Eventually([&] { return Has(world_->node->StateOf(1).trouble, "is not on GPU 0 any more"); }, 10s));
  EXPECT_TRUE(Has(world_->node->StateOf(1).trouble, "divvy requeue"));
  EXPECT_TRUE(Has(world_->node->Ask(Add(1, kSmall)), "is not on GPU 0 any more"));
  EXPECT_EQ(Count(), 0U) << "it gets no other behind its back";
}

TEST_F(KeptSlices, AnInstanceMissingForAWhileIsAdoptedLater) {
  MaySwitch();
  const std::string uuid = Added(1, kSmall).uuids.front();
  world_->Kill();
  ASSERT_TRUE(gpu_->Lose(0));
  world_->Start();
  EXPECT_TRUE(Eventually([&] { return Has(world_->node->StateOf(1).trouble, "has not been found yet"); }));
  ASSERT_TRUE(gpu_->Restore(0));
  EXPECT_TRUE(Eventually([&] { return world_->node->StateOf(1).trouble.empty(); }, 10s));
  EXPECT_EQ(Added(1, kSmall).uuids.front(), uuid);
  EXPECT_EQ(Count(), 1U);
}

TEST_F(KeptSlices, ALostGpuKeepsItsInstancesUntilItIsBack) {
  MaySwitch();
  Added(1, kSmall);
  ASSERT_TRUE(gpu_->Lose(0));
  EXPECT_EQ(world_->Command(1, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return Has(TroubleOfGpu(), "the MIG instance of job 1 cannot be destroyed"); }));
  EXPECT_TRUE(world_->node->State().gpus.front().is_stuck);
  Added(2, kSmall, 1);
  ASSERT_TRUE(gpu_->Restore(0));
  EXPECT_TRUE(Eventually([&] { return Count() == 0 && !mig_->IsOn(0).value(); }, 10s));
  EXPECT_EQ(Count(1), 1U);
}

TEST_F(KeptSlices, AKeeperWithoutItsDirectoryDestroysItsInstances) {
  world_ = std::make_unique<KeeperWorld>(2, false, 100ms, 0, library_);
  MaySwitch();
  Added(1, kSmall);
  Added(2, kLarge);
  std::filesystem::remove_all(world_->directory);
  EXPECT_TRUE(Eventually([&] { return world_->has_ended.load(); }, 10s));
  EXPECT_EQ(Count(), 0U);
  EXPECT_FALSE(mig_->IsOn(0).value());
}

TEST_F(KeptSlices, AnInstanceThatCannotBeRecordedIsNotCreated) {
  MaySwitch();
  const std::string in_the_way = world_->directory + "/slices~";  // Makes writing fail, like a full disk.
  std::filesystem::create_directory(in_the_way);
  EXPECT_TRUE(Has(world_->node->Ask(Add(1, kSmall)), world_->directory + "/slices"));
  EXPECT_EQ(Count(), 0U);
  EXPECT_TRUE(Eventually([&] { return !mig_->IsOn(0).value(); }));
  std::filesystem::remove(in_the_way);
  Added(2, kSmall);
  Added(3, kLarge);
  // Destroying an instance does not require a successful write.
  std::filesystem::create_directory(in_the_way);
  EXPECT_EQ(world_->Command(2, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return Count() == 1; }));
  std::filesystem::remove(in_the_way);
  EXPECT_TRUE(Eventually([&] { return ReadSliceRecord(world_->directory)->slices.size() == 1; }, 10s));
}

// A node before version 2 sends no version, and requests an instance only by its profile.
TEST_F(KeptSlices, ANodeOfAnotherReleaseGetsNoSlicesButItsFractions) {
  wire::KeeperRequest hello;
  hello.hello.emplace();
  for (int i = 0; i < 2; ++i) {
    wire::KeeperGpu& gpu = hello.hello->gpus.emplace_back();
    gpu.index = static_cast<GpuIndex>(i);
    gpu.uuid = mig_->UuidOf(gpu.index).value();
    gpu.memory = Bytes(80 * kGiB);
  }
  ASSERT_EQ(world_->node->Ask(hello), "");
  EXPECT_TRUE(Has(world_->node->Ask(Add(1, kSmall)), "different release"));
  world_->node->SendText(R"({"id":77,"add":{"job":2,"attempt":1,"paper":[0],"slice":"1g.10gb"}})"
                         "\n");
  const auto answer = world_->node->AnswerTo(77);
  ASSERT_TRUE(answer) << "whoever asks waits for it";
  EXPECT_TRUE(Has(answer->error, "different release")) << answer->error;
  EXPECT_FALSE(world_->Add(KeeperWorld::Terms(3, 0, 0.5, kGiB, kGiB)).folder.empty());
}

TEST_F(KeptSlices, AnUnreadableNodeFileIsReplacedByTheNodesMessage) {
  const std::string folder = world_->Add(KeeperWorld::Terms(1, 1, 0.5, kGiB, kGiB)).folder;
  FakeProcess process(folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  world_->Kill();
  std::ofstream(world_->directory + "/node.keeper") << "{ half of";
  world_->Start();
  EXPECT_EQ(world_->node->StateOf(1).attempt, 1U) << "its tenants are taken up";
  const wire::KeeperState state = world_->node->State();
  ASSERT_EQ(state.troubles.size(), 1U);
  EXPECT_TRUE(Has(state.troubles.front(), "node.keeper cannot be read")) << state.troubles.front();
  EXPECT_TRUE(std::filesystem::exists(world_->directory + "/node.keeper.unreadable"));
}

}  // namespace slices_left_test
}  // namespace divvy::keeper
