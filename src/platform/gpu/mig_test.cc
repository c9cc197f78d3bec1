// Tests MIG with the real, loaded stand-in library: the code path of a real driver.
#include "platform/gpu/mig.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "platform/emulation/emulation.h"
#include "platform/gpu/gpu_probe.h"
#include "platform/gpu/slice_record.h"

namespace divvy {
namespace mig_test {

class EmulatedMig : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "mig-XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Emulate(const std::string& spec) {
    auto described = ParseGpuDescription(spec);
    ASSERT_TRUE(described) << described.error().message;
    auto library = WriteEmulation(*described, directory_);
    ASSERT_TRUE(library);
    library_ = *library;
    auto opened = OpenMig(library_);
    ASSERT_TRUE(opened) << opened.error().message;
    mig_ = *std::move(opened);
    auto world = EmulatedWorld::Open(EmulatedWorldPath(directory_));
    ASSERT_TRUE(world);
    world_.emplace(*std::move(world));
  }
  std::vector<GpuFacts> Facts(MigUse mig) {
    auto probe = OpenNvml(library_, "", mig, directory_);
    EXPECT_TRUE(probe);
    return (*probe)->Facts().value();
  }
  static std::vector<std::string> NamesOf(const GpuFacts& gpu) {
    std::vector<std::string> names;
    for (const SliceProfile& one : gpu.slices) names.push_back(one.name);
    return names;
  }

  std::string directory_;
  std::string library_;
  std::unique_ptr<Mig> mig_;
  std::optional<EmulatedWorld> world_;
};

using Names = std::vector<std::string>;

// Simulates a keeper that outlives a daemon which used other GPUs.
TEST_F(EmulatedMig, ChangedGpusAreSeenByAKeeperFromBefore) {
  Emulate("2xH100-80GB");
  const auto before = std::exchange(mig_, nullptr);
  ASSERT_TRUE(before->Switch(0, true));
  Emulate("1xH100-80GB");
  EXPECT_FALSE(before->UuidOf(1));
  EXPECT_FALSE(before->IsOn(0).value());
  ASSERT_TRUE(before->Switch(0, true));
  EXPECT_TRUE(before->Make(0, {"1g.10gb", 1, 1, 6}));
  EXPECT_EQ(mig_->Instances(0)->size(), 1U);
}

TEST_F(EmulatedMig, AnInstanceIsCreatedInItsPlaceAndDestroyed) {
  Emulate("1xH100-80GB");
  const GpuSlice wanted{"1g.10gb", 1, 1, 6};
  EXPECT_FALSE(mig_->Make(0, wanted)) << "its MIG mode is off";
  ASSERT_TRUE(mig_->Switch(0, true));
  EXPECT_TRUE(mig_->IsOn(0).value());
  const auto made = mig_->Make(0, wanted);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->uuid.starts_with("MIG-")) << made->uuid;
  EXPECT_EQ(made->start, 6);
  EXPECT_GT(made->memory, Bytes(std::int64_t{9} << 30));
  EXPECT_FALSE(mig_->Make(0, wanted)) << "there is no room there";
  EXPECT_FALSE(mig_->Make(0, {"3g.40gb", 3, 4, 4}));
  const auto large = mig_->Make(0, {"4g.40gb", 4, 4, 0});
  ASSERT_TRUE(large);
  EXPECT_NE(large->uuid, made->uuid);
  EXPECT_EQ(mig_->Instances(0)->size(), 2U);
  EXPECT_FALSE(mig_->Switch(0, false)) << "instances are there";
  ASSERT_TRUE(mig_->Unmake(0, made->id));
  ASSERT_TRUE(mig_->Unmake(0, large->id));
  EXPECT_TRUE(mig_->Unmake(0, large->id)) << "fine when it is gone";
  EXPECT_TRUE(mig_->Instances(0)->empty());
  EXPECT_TRUE(mig_->Switch(0, false));
}

TEST_F(EmulatedMig, TheModeIsNotSwitchedWhileProgramsRun) {
  Emulate("1xH100-80GB,1xA100-80GB");
  ASSERT_TRUE(world_->AddProcess(0, ::getpid(), Bytes(std::int64_t{1} << 30)));
  const Status busy = mig_->Switch(0, true);
  ASSERT_FALSE(busy);
  EXPECT_NE(busy.error().message.find("In use by another client"), std::string::npos) << busy.error().message;
  EXPECT_FALSE(mig_->IsOn(0).value());
  ASSERT_TRUE(world_->RemoveProcess(0, ::getpid()));
  EXPECT_FALSE(mig_->IsOn(0).value()) << "nothing is left to happen later";
  EXPECT_TRUE(mig_->Switch(0, true));
  const Status ampere = mig_->Switch(1, true);
  ASSERT_FALSE(ampere);
  EXPECT_NE(ampere.error().message.find("only with a reset; run nvidia-smi -i 1 -mig 1"), std::string::npos)
      << ampere.error().message;
  ASSERT_TRUE(world_->Restore(1));
  EXPECT_FALSE(mig_->IsOn(1).value());
}

TEST_F(EmulatedMig, ProfilesHaveTheVendorsNames) {
  Emulate("1xH100-80GB,1xH200-141GB,1xA100-40GB,1xB200-192GB,1xH100-94GB,1xA30-24GB,1xL4-24GB");
  for (int gpu = 0; gpu < 5; ++gpu) ASSERT_TRUE(world_->SetMig(static_cast<GpuIndex>(gpu), true));
  const auto facts = Facts(MigUse::kUse);
  EXPECT_EQ(NamesOf(facts[0]), (Names{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}));
  EXPECT_EQ(NamesOf(facts[1]), (Names{"1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}));
  EXPECT_EQ(NamesOf(facts[2]), (Names{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}));
  EXPECT_EQ(NamesOf(facts[3]), (Names{"1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"}));
  EXPECT_EQ(NamesOf(facts[4]), (Names{"1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"}));
  EXPECT_TRUE(facts[0].is_only_sliced);
  EXPECT_EQ(NamesOf(facts[5]), Names()) << "an A30 has another form";
  EXPECT_EQ(NamesOf(facts[6]), Names());
}

TEST_F(EmulatedMig, ConfigurationDecidesWhichGpusMayBeCut) {
  Emulate("1xH100-80GB");
  EXPECT_TRUE(Facts(MigUse::kUse)[0].slices.empty());
  const auto may = Facts(MigUse::kAuto)[0];
  EXPECT_EQ(NamesOf(may), (Names{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}));
  EXPECT_FALSE(may.is_only_sliced);
  ASSERT_TRUE(world_->SetMig(0, true));
  EXPECT_TRUE(Facts(MigUse::kAuto)[0].is_only_sliced) << "divvy did not switch it on";
  EXPECT_TRUE(Facts(MigUse::kOff)[0].slices.empty());
  const auto uuid = mig_->UuidOf(0);
  ASSERT_TRUE(WriteSliceRecord(directory_, {{}, {*uuid}}));
  EXPECT_FALSE(Facts(MigUse::kAuto)[0].is_only_sliced);
}

TEST_F(EmulatedMig, ForeignInstancesAreSeen) {
  Emulate("1xH100-80GB");
  ASSERT_TRUE(world_->SetMig(0, true));
  auto probe = OpenNvml(library_, "", MigUse::kUse, directory_);
  ASSERT_TRUE(probe);
  ASSERT_TRUE((*probe)->Facts());
  const auto look = [&] { return (*probe)->Observe(GpuSet::Of({0}), false, {}).front().cut_by_others; };
  EXPECT_EQ(look(), "");
  ASSERT_TRUE(WriteSliceRecord(directory_, {{{mig_->UuidOf(0).value(), 7, 1, {"2g.20gb", 2, 2, 4}, ""}}, {}}));
  ASSERT_TRUE(mig_->Make(0, {"2g.20gb", 2, 2, 4}));
  EXPECT_EQ(look() + look(), "") << "it is divvy's own";
  ASSERT_TRUE(world_->MakeSlice(0, 1, 1, 0));
  EXPECT_EQ(look(), "") << "it may be just being written down";
  EXPECT_EQ(look(), "it has MIG instances that divvy did not make: 1g at 0");
  ASSERT_TRUE(world_->UnmakeSlice(0, 0));
  EXPECT_EQ(look(), "");
}

TEST_F(EmulatedMig, RecordsAreReadBackUnchanged) {
  const SliceRecord record{{{"GPU-1", 7, 2, {"1g.18gb", 1, 1, 6}, "MIG-5"}, {"GPU-2", 8, 1, {"7g.141gb", 7, 8, 0}, ""}},
                           {"GPU-2"}};
  ASSERT_TRUE(WriteSliceRecord(directory_, record));
  EXPECT_EQ(ReadSliceRecord(directory_).value(), record);
  EXPECT_NE(record.Find("GPU-1", 6, 1), nullptr);
  EXPECT_EQ(record.Find("GPU-1", 6, 2), nullptr);
  ASSERT_TRUE(WriteSliceRecord(directory_, {}));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/slices"));
  EXPECT_EQ(ReadSliceRecord(directory_).value(), SliceRecord());
  {
    std::ofstream broken(directory_ + "/slices");
    broken << "boot x\nslice GPU-1 seven\n";
  }
  std::filesystem::permissions(directory_ + "/slices", std::filesystem::perms::owner_read);
  const auto read = ReadSliceRecord(directory_);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("cannot read the line 'slice GPU-1 seven'"), std::string::npos);
}

TEST(SliceNames, FollowTheEighthsOfTheMemory) {
  EXPECT_EQ(SliceName(1, 9'984_MiB, 81'559_MiB), "1g.10gb");
  EXPECT_EQ(SliceName(1, 16'384_MiB, 143'771_MiB), "1g.18gb");
  EXPECT_EQ(SliceName(3, 71'168_MiB, 143'771_MiB), "3g.71gb");
  EXPECT_TRUE(IsSuchSlice({"1g.20gb", 1, 2, 19_GiB}, "1g-wide"));
  EXPECT_FALSE(IsSuchSlice({"1g.20gb", 1, 2, 19_GiB}, "1g"));
  EXPECT_TRUE(IsSuchSlice({"1g.20gb", 1, 2, 19_GiB}, ">=19G"));
  EXPECT_FALSE(IsSuchSlice({"1g.20gb", 1, 2, 19_GiB}, ">=20G"));
  EXPECT_FALSE(IsSuchSlice({"1g.20gb", 1, 2, 19_GiB}, ">=nonsense"));
}

}  // namespace mig_test
}  // namespace divvy
