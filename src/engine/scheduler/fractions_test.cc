// GPU fractions in the scheduler: how they are placed on GPUs, and when they may grow.
#include <gtest/gtest.h>

#include "engine/scheduler/test_world.h"

namespace divvy {
namespace fractions_test {

/// Starts the jobs that fit now; returns their GPUs by job.
std::map<JobId, GpuSet> Start(World& world) {
  world.scheduler.SetPolicy(world.policy);
  const Decided decided = world.scheduler.Decide(world.now, [](JobId id) { return id; });
  std::map<JobId, GpuSet> started;
  for (std::size_t i = 0; i < decided.jobs.size(); ++i) started[decided.jobs[i]] = decided.plan.starts[i].gpus;
  world.Check();
  return started;
}

WaitingEntry Part(std::uint64_t id, int ten_thousandths, int gpus = 1) {
  WaitingEntry entry = World::Job(id, gpus);
  entry.request.portion.request = GpuShare(ten_thousandths);
  return entry;
}

WaitingEntry ByMemory(std::uint64_t id, Bytes memory) {
  WaitingEntry entry = World::Job(id, 1);
  entry.request.portion.memory = memory;
  return entry;
}

TEST(GpuFractions, ArePackedAndLeaveWholeGpusToOthers) {
  World world;
  world.Node(2);
  world.Submit(Part(1, 5'000));
  world.Submit(Part(2, 5'000));
  world.Submit(World::Job(3, 1));
  const auto started = Start(world);
  ASSERT_EQ(started.size(), 3U);
  EXPECT_EQ(started.at(JobId(1)), started.at(JobId(2)));
  EXPECT_NE(started.at(JobId(3)), started.at(JobId(1)));
  EXPECT_EQ(world.scheduler.holders(kOwnNode, 0), (std::vector{JobId(1), JobId(2)}));
  EXPECT_EQ(world.scheduler.node(kOwnNode).room(0), GpuShare());
  world.scheduler.Finish(JobId(1));
  EXPECT_EQ(world.scheduler.node(kOwnNode).room(0), GpuShare(5'000));
  EXPECT_EQ(world.scheduler.free(), GpuSet()) << "nobody's GPUs are those that no one has a part of";
  world.scheduler.Finish(JobId(2));
  EXPECT_EQ(world.scheduler.free(), GpuSet::Of({0}));
  world.Check();
}

TEST(GpuFractions, NeverAddUpToMoreThanAGpu) {
  World world;
  world.Node(1);
  for (std::uint64_t id = 1; id <= 5; ++id) world.Submit(Part(id, 3'000));
  EXPECT_EQ(Start(world).size(), 3U);
  world.scheduler.Finish(JobId(2));
  EXPECT_EQ(Start(world).size(), 1U);
}

TEST(GpuFractions, FractionsOfSeveralGpusAreOnDistinctGpus) {
  World world;
  world.Node(2);
  world.Submit(Part(1, 5'000, 2));
  EXPECT_EQ(Start(world).at(JobId(1)), GpuSet::Of({0, 1}));
  world.Submit(Part(2, 5'000));
  world.Submit(Part(3, 5'000));
  const auto started = Start(world);
  ASSERT_EQ(started.size(), 2U);
  EXPECT_NE(started.at(JobId(2)), started.at(JobId(3)));
}

TEST(GpuFractions, AMemoryRequestIsAnotherFractionOfEachGpuSize) {
  World world;
  NodeCapacity capacity;
  World::AddGpu(capacity, "NVIDIA A100 80GB", 80_GiB);
  World::AddGpu(capacity, "NVIDIA L4", 24_GiB);
  capacity.cpus = 8;
  capacity.memory = 64_GiB;
  world.scheduler.SetCapacity(capacity);
  world.Submit(ByMemory(1, 20_GiB));
  world.Submit(ByMemory(2, 20_GiB));
  world.Submit(ByMemory(3, 30_GiB));
  const auto started = Start(world);
  ASSERT_EQ(started.size(), 3U);
  EXPECT_EQ(started.at(JobId(1)), GpuSet::Of({1})) << "the smallest that has it, which wastes least";
  EXPECT_EQ(started.at(JobId(2)), GpuSet::Of({0}));
  EXPECT_EQ(started.at(JobId(3)), GpuSet::Of({0}));
  EXPECT_EQ(world.scheduler.node(kOwnNode).room(0),
            GpuShare(GpuShare::kWhole) - PartsOf(world.scheduler.running(JobId(2))->request.portion, 80_GiB) -
                PartsOf(world.scheduler.running(JobId(3))->request.portion, 80_GiB));
}

TEST(GpuFractions, AreKeptWhenARunningJobIsAdopted) {
  World world;
  world.Node(2);
  RunningJob job;
  job.id = JobId(4);
  job.gpus = GpuSet::Of({1});
  job.share = GpuShare(7'000);
  job.request.gpus = 1;
  job.request.portion.request = GpuShare(7'000);
  job.started = world.now;
  world.scheduler.Adopt(job);
  world.Check();
  world.Submit(Part(5, 4'000));
  EXPECT_EQ(Start(world).at(JobId(5)), GpuSet::Of({0}));
}

TEST(GpuFractions, GrowOnlyWhereThereIsRoom) {
  World world;
  world.Node(1);
  world.Submit(Part(1, 5'000));
  world.Submit(Part(2, 2'500));
  ASSERT_EQ(Start(world).size(), 2U);
  GpuPortion more;
  more.request = GpuShare(8'000);
  const Status refused = world.scheduler.SetPortion(JobId(1), more);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("GPU 0 has room for 0.75 next to"), std::string::npos);
  EXPECT_EQ(world.scheduler.running(JobId(1))->share, GpuShare(5'000));
  more.request = GpuShare(7'500);
  EXPECT_TRUE(world.scheduler.SetPortion(JobId(1), more));
  EXPECT_EQ(world.scheduler.node(kOwnNode).room(0), GpuShare());
  world.Check();
  more.request = GpuShare(1'000);
  EXPECT_TRUE(world.scheduler.SetPortion(JobId(1), more));
  world.Check();
  world.Submit(Part(3, 6'500));
  EXPECT_EQ(Start(world).size(), 1U);
}

TEST(GpuFractions, ARequestThatNoGpuCanServeIsRefusedWithItsSize) {
  World world;
  world.Node(2);
  Request request;
  request.gpus = 1;
  request.portion.memory = 90_GiB;
  const Status refused = CheckFeasible(world.scheduler, request, "");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("90 GiB"), std::string::npos) << refused.error().message;
  request.portion.memory = 70_GiB;
  EXPECT_TRUE(CheckFeasible(world.scheduler, request, ""));
}

TEST(GpuFractions, AWaitingJobIsToldHowMuchIsFree) {
  World world;
  world.Node(1);
  world.Submit(Part(1, 7'500));
  ASSERT_EQ(Start(world).size(), 1U);
  world.Submit(Part(2, 5'000));
  EXPECT_TRUE(Start(world).empty());
  const core::Explanation why = Explain(world.scheduler, JobId(2), world.now);
  ASSERT_FALSE(why.blockers.empty());
  EXPECT_NE(why.blockers.front().text.find("0.5"), std::string::npos) << why.blockers.front().text;
  EXPECT_EQ(why.change_text(), "--gpus 0.25 (GPU 0 has 0.25 left)") << "it is not free";
}

TEST(GpuFractions, NoFractionIsSmallerThanACudaContext) {
  World world;
  world.Node(2);
  Request request;
  request.gpus = 1;
  request.portion.request = GpuShare(10);
  const Status refused = CheckFeasible(world.scheduler, request, "");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("request at least --gpus 0.0065 or --gpu-memory 512M"), std::string::npos)
      << refused.error().message;
  request.portion.request = SmallestParts(80_GiB);
  EXPECT_TRUE(CheckFeasible(world.scheduler, request, ""));
  request.portion = GpuPortion();
  request.portion.memory = 20_GiB;
  request.portion.memory_limit = 200_GiB;
  EXPECT_FALSE(CheckFeasible(world.scheduler, request, "")) << "more than any GPU has";
}

TEST(GpuFractions, UseOnlyGpusOnWhichACudaContextFits) {
  World world;
  NodeCapacity capacity;
  World::AddGpu(capacity, "NVIDIA L4", 24_GiB);
  World::AddGpu(capacity, "NVIDIA H200", 141_GiB);
  capacity.cpus = 8;
  capacity.memory = 64_GiB;
  world.scheduler.SetCapacity(capacity);
  world.Submit(Part(1, 100));
  const auto started = Start(world);
  ASSERT_EQ(started.size(), 1U);
  EXPECT_EQ(started.at(JobId(1)), GpuSet::Of({1})) << "a hundredth of the L4 is 242 MiB";
}

}  // namespace fractions_test
}  // namespace divvy
