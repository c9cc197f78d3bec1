#include <gtest/gtest.h>

#include "keeper_real_world.h"
#include "platform/emulation/emulation_cuda_file.h"

namespace divvy::keeper {
namespace keeper_real_test {

wire::KeeperAdd Terms(std::uint64_t job, int gpu, double compute, std::int64_t request, std::int64_t limit) {
  return KeeperWorld::Terms(job, gpu, compute, request, limit);
}

struct Weights {
  std::vector<double> of;
};
void PrintTo(const Weights& weights, std::ostream* out) { *out << testing::PrintToString(weights.of); }
class RealShares : public testing::TestWithParam<Weights> {};

TEST_P(RealShares, ProgramsGetTheRequestedTime) {
  RealWorld world("1xH100-80GB");
  std::vector<std::unique_ptr<Program>> programs;
  for (std::size_t i = 0; i < GetParam().of.size(); ++i) {
    const auto added = world.Add(Terms(i + 1, 0, GetParam().of[i], 4 * kGiB, 4 * kGiB));
    programs.push_back(world.Burn(added, "burn" + std::to_string(i), {"--gpu-seconds", "100", "--vram", "16M"}));
  }
  for (auto& program : programs) ASSERT_TRUE(program->Says("ready")) << program->Output();
  const auto busy = [&] {
    std::vector<double> had;
    for (auto& program : programs) had.push_back(world.BusyOf(program->pid()));
    return had;
  };
  const auto sum_since = [&](const std::vector<double>& before) {
    const std::vector<double> now = busy();
    double sum = 0;
    for (std::size_t i = 0; i < now.size(); ++i) sum += now[i] - before[i];
    return sum;
  };
  const std::vector<double> start = busy();
  ASSERT_TRUE(Eventually([&] { return sum_since(start) > 0.3; }, 20s));  // All programs have begun to compute.
  const std::vector<double> before = busy();
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(Eventually([&] { return sum_since(before) >= 4.5; }, 30s));
  const Duration took = std::chrono::steady_clock::now() - began;
  const std::vector<double> after = busy();
  double sum = 0;
  for (std::size_t i = 0; i < after.size(); ++i) sum += after[i] - before[i];
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double share = (after[i] - before[i]) / sum;
    std::printf("share %zu: %.4f of %.2f\n", i, share, GetParam().of[i]);
    EXPECT_NEAR(share, GetParam().of[i], 0.12)
        << "in equal turns it would be further off; bench/shares has the figures";
  }
  std::printf("busy %.3f of the time\n", sum / ToSeconds(took));
}
INSTANTIATE_TEST_SUITE_P(Keeper, RealShares, testing::Values(Weights{{0.1, 0.9}}, Weights{{0.25, 0.25, 0.5}}));

TEST(KeeperReal, ABorrowerRepaysAndContinues) {
  RealWorld world("1xH100-80GB");
  const auto borrower = world.Add(Terms(1, 0, 0.5, kGiB, 70 * kGiB));
  auto greedy =
      world.Burn(borrower, "greedy", {"--vram", "512M", "--check", "--gpu-seconds", "1000", "--kernel", "2ms"});
  ASSERT_TRUE(greedy->Says("ready")) << greedy->Output();
  const auto owner = world.Add(Terms(2, 0, 0.5, 60 * kGiB, 60 * kGiB));
  auto guaranteed = world.Burn(owner, "owner", {"--vram", "1G", "--check", "--gpu-seconds", "0.5"});
  EXPECT_EQ(guaranteed->Wait(), 0) << guaranteed->Output();
  EXPECT_NE(greedy->pid(), 0);
  EXPECT_TRUE(world.node->requeues.empty());
}

TEST(KeeperReal, AParkedProgramLeavesNothingOnTheGpuAndReturnsByItself) {
  RealWorld world("1xH100-80GB");
  const auto added = world.Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  auto program = world.Burn(
      added, "burn", {"--vram", "256M", "--check", "--gpu-seconds", "0.4", "--idle-after", "0.2", "--wake-after", "4"});
  ASSERT_TRUE(Eventually([&] { return world.BusyOf(program->pid()) >= 0.2; }, 20s)) << program->Output();
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).is_movable; }, 20s)) << world.node->StateOf(1).unmovable;
  EXPECT_EQ(world.Command(1, "park"), "");
  EXPECT_EQ(world.node->StateOf(1).state, wire::ShareState::kParked);
  EXPECT_EQ(world.UseOf(0), Bytes(0));
  EXPECT_EQ(program->Wait(), 0) << program->Output();
}

TEST(KeeperReal, AProgramIsMovedBetweenGpusUnderLoad) {
  RealWorld world("2xH100-80GB");
  const auto added = world.Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  auto program = world.Burn(added, "burn",
                            {"--vram", "64M", "--check", "--gpu-seconds", "1000", "--kernel", "1ms", "--seed", "7"});
  ASSERT_TRUE(program->Says("ready")) << program->Output();
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).is_movable; }, 20s)) << world.node->StateOf(1).unmovable;
  int gpu = added.gpus.at(0);
  std::vector<double> took;
  const int rounds = Rounds(20);
  for (int i = 0; i < rounds; ++i) {
    const auto began = std::chrono::steady_clock::now();
    ASSERT_EQ(world.Command(1, "move", {1 - gpu}), "") << i;
    took.push_back(ToSeconds(Duration(std::chrono::steady_clock::now() - began)));
    EXPECT_EQ(world.UseOf(gpu), Bytes(0));
    EXPECT_GT(world.UseOf(1 - gpu), Bytes(64 * kMiB - 1));
    gpu = 1 - gpu;
  }
  std::sort(took.begin(), took.end());
  std::printf("%d moves of 64 MiB: median %.1f ms, worst %.1f ms\n", rounds, took[took.size() / 2] * 1e3,
              took.back() * 1e3);
  const double before = world.BusyOf(program->pid());
  EXPECT_TRUE(Eventually([&] { return world.BusyOf(program->pid()) > before + 0.05; }, 10s));
  // The program checks all of its memory once more before it ends.
  program->End(SIGTERM);
  EXPECT_NE(program->Output().find("errors=0"), std::string::npos) << program->Output();
}

/// A job with one whole GPU, as its node starts it.
struct WholeJob {
  WholeJob(RealWorld& world, std::uint64_t job, int gpu) {
    const GpuFacts& fact = world.facts.at(static_cast<std::size_t>(gpu));
    wire::KeeperAdd terms = Terms(job, gpu, 1, PortionedMemory(fact.memory_total).count(), fact.memory_total.count());
    terms.is_whole = true;
    added = world.Add(terms);
    added.environment.insert(added.environment.end(),
                             {"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + std::to_string(gpu),
                              "DIVVY_GPUS=" + std::to_string(gpu), "DIVVY_GPU_UUIDS=" + fact.uuid});
  }
  wire::KeeperAdded added;
};

std::string Displace(RealWorld& world, std::uint64_t job) {
  wire::KeeperRequest request;
  request.displace = wire::KeeperDisplace{JobId(job), 1};
  return world.Ask(request);
}

std::string Return(RealWorld& world, std::uint64_t job, int gpu) {
  wire::KeeperRequest request;
  request.back = wire::KeeperReturn{JobId(job), 1, {gpu}};
  return world.Ask(request);
}

// The newcomers run where the long job was. The keeper is killed at each step, and the node stops the long job's
// processes while it is away.
TEST(KeeperReal, ADisplacedJobReturnsToAnotherGpuWithItsData) {
  RealWorld world("2xH100-80GB");
  const WholeJob long_job(world, 1, 0);
  auto program = world.Burn(long_job.added, "long",
                            {"--vram", "256M", "--check", "--gpu-seconds", "1000", "--kernel", "1ms", "--seed", "7"});
  ASSERT_TRUE(program->Says("ready")) << program->Output();
  ASSERT_TRUE(Eventually([&] { return Displace(world, 1).empty(); }, 20s)) << world.node->StateOf(1).unparkable;
  EXPECT_EQ(world.UseOf(0), Bytes(0));
  ::kill(program->pid(), SIGSTOP);
  world.keeper->End(SIGKILL);
  world.StartKeeper();
  EXPECT_TRUE(world.node->StateOf(1).is_displaced);
  {
    const WholeJob newcomer(world, 2, 0);
    auto trial = world.Burn(newcomer.added, "trial", {"--vram", "1G", "--check", "--gpu-seconds", "0.2"});
    EXPECT_EQ(trial->Wait(), 0) << trial->Output();
  }
  // Job 2 still has GPU 0. Job 1 gets the other one.
  ::kill(program->pid(), SIGCONT);
  ASSERT_EQ(Return(world, 1, 1), "") << world.Told();
  EXPECT_EQ(world.UseOf(0), Bytes(0));
  EXPECT_GT(world.UseOf(1), Bytes(256 * kMiB - 1));
  const double before = world.BusyOf(program->pid());
  EXPECT_TRUE(Eventually([&] { return world.BusyOf(program->pid()) > before + 0.05; }, 20s)) << world.Told();
  world.keeper->End(SIGKILL);
  world.StartKeeper();
  EXPECT_FALSE(world.node->StateOf(1).is_displaced);
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, 1);
  // A program that the job starts now finds its GPU, although its environment names the first one.
  auto child = world.Burn(long_job.added, "child", {"--vram", "32M", "--check", "--gpu-seconds", "0.1"});
  ASSERT_TRUE(child->Says("ready")) << child->Output();
  EXPECT_EQ(world.UseOf(0), Bytes(0));
  EXPECT_EQ(child->Wait(), 0) << child->Output();
  program->End(SIGTERM);
  EXPECT_NE(program->Output().find("errors=0"), std::string::npos) << program->Output();
}

TEST(KeeperReal, ADisplacedJobThatIsKilledLeavesNothingBehind) {
  RealWorld world("1xH100-80GB");
  const WholeJob long_job(world, 1, 0);
  auto program = world.Burn(long_job.added, "long", {"--vram", "64M", "--gpu-seconds", "1000"});
  ASSERT_TRUE(program->Says("ready")) << program->Output();
  ASSERT_TRUE(Eventually([&] { return Displace(world, 1).empty(); }, 20s)) << world.node->StateOf(1).unparkable;
  ::kill(program->pid(), SIGSTOP);
  program->End(SIGKILL);
  EXPECT_EQ(world.Command(1, "remove"), "");
  const WholeJob next(world, 2, 0);
  auto trial = world.Burn(next.added, "trial", {"--vram", "64M", "--check", "--gpu-seconds", "0.1"});
  EXPECT_EQ(trial->Wait(), 0) << trial->Output();
}

TEST(KeeperReal, AProgramStartedAfterAMoveRunsOnItsTenantsGpu) {
  RealWorld world("2xH100-80GB");
  const auto added = world.Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  auto first = world.Burn(added, "first", {"--vram", "32M", "--gpu-seconds", "1000"});
  ASSERT_TRUE(first->Says("ready")) << first->Output();
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).is_movable; }, 20s));
  const int from = added.gpus.at(0);
  ASSERT_EQ(world.Command(1, "move", {1 - from}), "");
  auto second = world.Burn(added, "second", {"--vram", "32M", "--check", "--gpu-seconds", "0.1"});
  ASSERT_TRUE(second->Says("ready")) << second->Output();
  EXPECT_EQ(world.UseOf(from), Bytes(0));
  EXPECT_EQ(second->Wait(), 0) << second->Output();
}

TEST(KeeperReal, AProgramStartedWhileItsTenantIsParkedRunsWhereThatWakes) {
  RealWorld world("2xH100-80GB");
  const auto added = world.Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  auto first = world.Burn(added, "first",
                          {"--vram", "32M", "--gpu-seconds", "0.1", "--idle-after", "0.05", "--wake-after", "1000"});
  ASSERT_TRUE(first->Says("ready")) << first->Output();
  ASSERT_TRUE(Eventually([&] { return world.BusyOf(first->pid()) >= 0.05; }, 20s));
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).is_movable; }, 20s));
  const int from = added.gpus.at(0);
  ASSERT_EQ(world.Command(1, "park"), "");
  wire::KeeperRequest whole;
  whole.take_whole.emplace().job = JobId(50);
  whole.take_whole->gpus.Insert(static_cast<GpuIndex>(from));
  ASSERT_EQ(world.Ask(whole), "");
  auto second = world.Burn(added, "second", {"--vram", "32M", "--check", "--gpu-seconds", "0.1"});
  ASSERT_TRUE(second->Says("ready")) << second->Output();
  EXPECT_EQ(world.UseOf(from), Bytes(0));
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, 1 - from);
  EXPECT_EQ(second->Wait(), 0) << second->Output();
}

TEST(KeeperReal, ATenantOfTwoProgramsMovesAndParksAsOne) {
  RealWorld world("2xH100-80GB");
  const auto added = world.Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  auto first = world.Burn(added, "first", {"--vram", "32M", "--check", "--gpu-seconds", "100000", "--kernel", "1ms"});
  auto second = world.Burn(added, "second",
                           {"--vram", "48M", "--check", "--gpu-seconds", "100000", "--kernel", "2ms", "--seed", "9"});
  ASSERT_TRUE(first->Says("ready") && second->Says("ready"));
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).is_movable; }, 20s));
  int gpu = added.gpus.at(0);
  for (int i = 0; i < Rounds(5); ++i) {
    ASSERT_EQ(world.Command(1, "move", {1 - gpu}), "");
    EXPECT_EQ(world.UseOf(gpu), Bytes(0));
    gpu = 1 - gpu;
    ASSERT_EQ(world.Command(1, "park"), "");
    ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).state == wire::ShareState::kRunning; }, 20s))
        << world.node->StateOf(1).trouble;
    gpu = world.node->StateOf(1).shares.at(0).gpu;
  }
  first->End(SIGTERM);
  second->End(SIGTERM);
  EXPECT_NE(first->Output().find("errors=0"), std::string::npos) << first->Output();
  EXPECT_NE(second->Output().find("errors=0"), std::string::npos) << second->Output();
}

TEST(KeeperReal, ARefusalOfTheDriverLeavesAWorkingProgram) {
  RealWorld world("2xH100-80GB");
  const auto added = world.Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  auto program = world.Burn(added, "burn", {"--vram", "32M", "--check", "--gpu-seconds", "100000", "--kernel", "1ms"});
  ASSERT_TRUE(program->Says("ready")) << program->Output();
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).is_movable; }, 20s));
  const int gpu = added.gpus.at(0);
  const auto goes_on = [&] {
    const double before = world.BusyOf(program->pid());
    return Eventually([&] { return world.BusyOf(program->pid()) > before + 0.02; }, 20s);
  };
  // The checkpoint fails: nothing changes, and the command returns the reason.
  ASSERT_TRUE(SetCudaFault(world.emulation, static_cast<GpuIndex>(gpu), "refuse-checkpoint", 1));
  EXPECT_NE(world.Command(1, "move", {1 - gpu}), "");
  EXPECT_EQ(world.node->StateOf(1).shares.at(0).gpu, gpu);
  EXPECT_TRUE(goes_on());
  ASSERT_TRUE(SetCudaFault(world.emulation, static_cast<GpuIndex>(gpu), "none", 0));
  // The restore fails: the tenant stays complete on the host, and returns to a GPU when it can.
  const auto other = world.Add(Terms(2, gpu, 0.5, 4 * kGiB, 4 * kGiB));
  auto second = world.Burn(other, "second", {"--vram", "32M", "--check", "--gpu-seconds", "100000", "--kernel", "1ms"});
  ASSERT_TRUE(second->Says("ready")) << second->Output();
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(2).is_movable; }, 20s));
  const int to = 1 - other.gpus.at(0);
  ASSERT_TRUE(SetCudaFault(world.emulation, static_cast<GpuIndex>(to), "refuse-restore", 1));
  EXPECT_NE(world.Command(2, "move", {to}), "");
  ASSERT_TRUE(SetCudaFault(world.emulation, static_cast<GpuIndex>(to), "none", 0));
  EXPECT_EQ(world.Command(2, "wake"), "");
  const double before = world.BusyOf(second->pid());
  EXPECT_TRUE(Eventually([&] { return world.BusyOf(second->pid()) > before + 0.02; }, 20s))
      << world.node->StateOf(2).trouble;
  for (Program* one : {program.get(), second.get()}) {
    one->End(SIGTERM);
    EXPECT_NE(one->Output().find("errors=0"), std::string::npos) << one->Output();
  }
}

TEST(KeeperReal, TwoNotebooksOnTwoGpusMakeRoomForAWholeGpuJobByOneMove) {
  RealWorld world("2xH100-80GB");
  std::vector<std::unique_ptr<Program>> notebooks;
  for (std::uint64_t job = 1; job <= 2; ++job) {
    const auto added = world.Add(Terms(job, 0, 0.5, 39 * kGiB, 79 * kGiB));  // Both are planned on GPU 0.
    notebooks.push_back(world.Burn(
        added, "notebook" + std::to_string(job),
        {"--vram", "64M", "--check", "--gpu-seconds", "100000", "--kernel", "1ms", "--seed", std::to_string(job)}));
    ASSERT_TRUE(notebooks.back()->Says("ready")) << notebooks.back()->Output();
    ASSERT_TRUE(Eventually([&] { return world.node->StateOf(job).is_movable; }, 20s));
  }
  EXPECT_NE(world.node->StateOf(1).shares.at(0).gpu, world.node->StateOf(2).shares.at(0).gpu);
  const auto began = std::chrono::steady_clock::now();
  wire::KeeperRequest request;
  request.take_whole.emplace().job = JobId(9);
  request.take_whole->gpus.Insert(1);
  EXPECT_EQ(world.Ask(request), "");
  std::printf("GPU 1 was empty after %.1f ms\n", ToSeconds(Duration(std::chrono::steady_clock::now() - began)) * 1e3);
  EXPECT_EQ(world.UseOf(1), Bytes(0));
  EXPECT_EQ(world.node->State().moves, 1u);
  for (auto& notebook : notebooks) {
    const double before = world.BusyOf(notebook->pid());
    EXPECT_TRUE(Eventually([&] { return world.BusyOf(notebook->pid()) > before + 0.05; }, 20s));
    notebook->End(SIGTERM);
    EXPECT_NE(notebook->Output().find("errors=0"), std::string::npos) << notebook->Output();
  }
}

TEST(KeeperReal, AProgramThatBypassesTheLibraryIsDetected) {
  RealWorld world("1xH100-80GB");
  const auto added = world.Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  wire::KeeperAdded bare = added;
  std::erase_if(bare.environment, [](const std::string& variable) { return variable.starts_with("LD_PRELOAD="); });
  auto program = world.Burn(bare, "burn", {"--vram", "64M", "--gpu-seconds", "1000"});
  ASSERT_TRUE(program->Says("ready")) << program->Output();
  EXPECT_TRUE(Eventually(
      [&] {
        const auto escaped = world.node->StateOf(1).escaped;
        return escaped.size() == 1 && escaped[0] == program->pid();
      },
      10s));
  EXPECT_EQ(world.node->StateOf(1).mechanism, "advisory");
}

TEST(KeeperReal, AnotherUsersProgramDoesNotMarkATenant) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to become another user";
  RealWorld world("1xH100-80GB");
  const auto added = world.Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  // The emulated GPU is a folder, which the other user must be able to reach.
  ASSERT_EQ(::chmod(world.directory.c_str(), 0777), 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(world.emulation))
    std::filesystem::permissions(entry.path(), std::filesystem::perms(0777));
  std::filesystem::permissions(world.emulation, std::filesystem::perms(0777));
  wire::KeeperAdded bare = added;
  std::erase_if(bare.environment, [](const std::string& variable) { return variable.starts_with("LD_PRELOAD="); });
  auto stranger = world.Burn(bare, "stranger", {"--vram", "64M", "--gpu-seconds", "1000"}, 65534);
  ASSERT_TRUE(stranger->Says("ready")) << stranger->Output();
  auto own = world.Burn(bare, "own", {"--vram", "64M", "--gpu-seconds", "1000"});
  ASSERT_TRUE(own->Says("ready")) << own->Output();
  // The other user's program started first, so it would also be detected first.
  EXPECT_TRUE(Eventually([&] { return !world.node->StateOf(1).escaped.empty(); }, 10s));
  EXPECT_EQ(world.node->StateOf(1).escaped, std::vector<std::int64_t>{own->pid()});
}

}  // namespace keeper_real_test
}  // namespace divvy::keeper
