// A keeper and two stand-in GPUs that support MIG.
#pragma once

#include <gtest/gtest.h>

#include "keeper/keeper_test_world.h"
#include "platform/emulation/emulation.h"
#include "platform/gpu/mig.h"
#include "platform/gpu/slice_record.h"

namespace divvy::keeper {

class KeptSlices : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "keeper-gpus-XXXXXX";
    gpus_ = ::mkdtemp(name.data());
    link_ = gpus_ + "-driver";
    auto library = WriteEmulation(ParseGpuDescription("2xH100-80GB").value(), gpus_);
    ASSERT_TRUE(library);
    library_ = *library;
    mig_ = OpenMig(library_).value();
    world_ = std::make_unique<KeeperWorld>(2, false, 30s, 0, library_);
    gpu_.emplace(EmulatedWorld::Open(EmulatedWorldPath(gpus_)).value());
  }
  void TearDown() override {
    world_.reset();
    mig_.reset();
    std::filesystem::remove(link_);
    std::filesystem::remove_all(gpus_);
  }

  static wire::KeeperRequest Add(std::uint64_t job, const GpuSlice& slice, int gpu = 0) {
    wire::KeeperRequest request;
    request.add = KeeperWorld::Terms(job, gpu, 0, 0, 0);
    request.add->slice = slice;
    return request;
  }
  wire::KeeperAdded Added(std::uint64_t job, const GpuSlice& slice, int gpu = 0) {
    const auto answer = world_->node->AnswerTo(world_->node->Send(Add(job, slice, gpu)));
    EXPECT_TRUE(answer && answer->added) << (answer ? answer->error : "no answer");
    return answer && answer->added ? *answer->added : wire::KeeperAdded();
  }
  /// Hides the driver from the next keeper until BringDriver. It uses a new path, since the dynamic loader still finds
  /// a path that was loaded once.
  void TakeDriver() { world_->SetNvml(link_ + library_.substr(gpus_.size())); }
  void BringDriver() { std::filesystem::create_directory_symlink(gpus_, link_); }
  std::string WhyWaits(std::uint64_t job) {
    for (const wire::KeptWait& wait : world_->node->State().waits) {
      if (wait.job == JobId(job)) return wait.why;
    }
    return "";
  }
  std::string TroubleOfGpu() {
    const wire::KeeperState state = world_->node->State();
    return state.gpus.empty() ? "" : state.gpus.front().trouble;
  }
  static bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
  std::size_t Count(GpuIndex gpu = 0) {
    const auto there = mig_->Instances(gpu);
    return there ? there->size() : 0;
  }
  void MaySwitch() {
    wire::KeeperRequest request;
    request.hello.emplace().may_switch_mig = true;
    request.hello->version = wire::kKeeperVersion;
    for (int i = 0; i < 2; ++i) {
      wire::KeeperGpu& gpu = request.hello->gpus.emplace_back();
      gpu.index = static_cast<GpuIndex>(i);
      gpu.uuid = mig_->UuidOf(gpu.index).value();
      gpu.memory = Bytes(80 * kGiB);
    }
    ASSERT_EQ(world_->node->Ask(request), "");
  }

  const GpuSlice kSmall{"1g.10gb", 1, 1, 6};
  const GpuSlice kLarge{"4g.40gb", 4, 4, 0};
  std::string gpus_;
  std::string link_;
  std::optional<EmulatedWorld> gpu_;
  std::string library_;
  std::unique_ptr<Mig> mig_;
  std::unique_ptr<KeeperWorld> world_;
};

}  // namespace divvy::keeper
