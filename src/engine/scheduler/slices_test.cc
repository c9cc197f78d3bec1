// MIG instances in the scheduler: their positions on GPUs, what they block for other jobs, and the size that a request
// gets.
#include <gtest/gtest.h>

#include "engine/scheduler/explain.h"
#include "engine/scheduler/test_world.h"

namespace divvy {
namespace slices_test {

/// The profiles that the driver reports for a GPU with this memory.
std::vector<SliceProfile> ProfilesOf(Bytes memory) {
  std::vector<SliceProfile> profiles;
  for (const auto& [compute, size] : std::vector<std::pair<int, int>>{{1, 1}, {1, 2}, {2, 2}, {3, 4}, {4, 4}, {7, 8}}) {
    const Bytes its(memory.count() / 8 * size - (std::int64_t{256} << 20));
    profiles.push_back({SliceName(compute, its, memory), compute, size, its});
  }
  return profiles;
}

void Give(World& world, int gpus, const std::string& model = "NVIDIA H100 80GB HBM3", Bytes memory = 80_GiB,
          bool only_slices = false) {
  NodeCapacity capacity = world.scheduler.capacity();
  for (int i = 0; i < gpus; ++i) {
    World::AddGpu(capacity, model, memory);
    capacity.gpus.back().is_mig_capable = true;
    capacity.gpus.back().slices = ProfilesOf(memory);
    capacity.gpus.back().is_only_sliced = only_slices;
  }
  capacity.cpus = 64;
  capacity.memory = 512_GiB;
  world.scheduler.SetCapacity(std::move(capacity));
}

WaitingEntry Slice(std::uint64_t id, std::string slice, Duration limit = Duration(0)) {
  WaitingEntry entry = World::Job(id, 1, limit);
  entry.request.slice = std::move(slice);
  return entry;
}

std::map<JobId, StartDecision> Start(World& world) {
  world.scheduler.SetPolicy(world.policy);
  const Decided decided = world.scheduler.Decide(world.now, [](JobId id) { return id; });
  std::map<JobId, StartDecision> started;
  for (std::size_t i = 0; i < decided.jobs.size(); ++i) started[decided.jobs[i]] = decided.plan.starts[i];
  world.Check();
  return started;
}

std::string Refusal(const World& world, const Request& request) {
  const Status fits = CheckFeasible(world.scheduler, request, "");
  return fits ? "" : fits.error().message;
}

TEST(SchedulerSlices, ASlicedOnlyGpuIsNotFreeForWholeGpuJobs) {
  World world;
  Give(world, 1, "NVIDIA H100 80GB HBM3", 80_GiB, true);
  Give(world, 3);
  world.Submit(World::Job(1, 2));
  ASSERT_EQ(Start(world).size(), 1U);
  world.Submit(World::Job(2, 2));
  EXPECT_TRUE(Start(world).empty());
  EXPECT_EQ(FirstBlockers(world.scheduler, world.now).Find(JobId(2)).value_or(core::Blocker()).text,
            "needs 2 GPUs, 1 is free");
}

TEST(SchedulerSlices, ArePackedAndLeaveTheFirstPlacesToLargeOnes) {
  World world;
  Give(world, 2);
  for (std::uint64_t id = 1; id <= 3; ++id) world.Submit(Slice(id, "1g.10gb"));
  world.Submit(World::Job(4, 1));
  const auto started = Start(world);
  ASSERT_EQ(started.size(), 4U);
  std::set<int> starts;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const StartDecision& one = started.at(JobId(id));
    EXPECT_EQ(one.gpus, started.at(JobId(1)).gpus);
    EXPECT_EQ(one.slice.profile, "1g.10gb");
    EXPECT_EQ(one.share, GpuShare(1'250));
    starts.insert(one.slice.start);
  }
  EXPECT_EQ(starts, (std::set{4, 5, 6})) << "a 4g can still be cut";
  EXPECT_NE(started.at(JobId(4)).gpus, started.at(JobId(1)).gpus) << "nobody else is on a GPU with slices";
  world.Submit(Slice(5, "4g.40gb"));
  EXPECT_EQ(Start(world).at(JobId(5)).slice, (GpuSlice{"4g.40gb", 4, 4, 0}));
}

TEST(SchedulerSlices, AWholeGpuJobAndAFractionWaitForTheLastSlice) {
  World world;
  Give(world, 1);
  world.Submit(Slice(1, "3g.40gb"));
  ASSERT_EQ(Start(world).size(), 1U);
  world.Submit(World::Job(2, 1));
  WaitingEntry part = World::Job(3, 1);
  part.request.portion.request = GpuShare(2'500);
  world.Submit(part);
  EXPECT_TRUE(Start(world).empty());
  world.scheduler.Finish(JobId(1));
  EXPECT_EQ(Start(world).size(), 1U);
}

TEST(SchedulerSlices, AMemoryRequestGetsTheSmallestSliceOfAnyGpu) {
  World world;
  Give(world, 1, "NVIDIA A100-SXM4-40GB", 40_GiB);
  Give(world, 1, "NVIDIA H200", Bytes(std::int64_t{143'771} << 20));
  world.Submit(Slice(1, ">=16G"));
  world.Submit(Slice(2, ">=30G"));
  const auto started = Start(world);
  ASSERT_EQ(started.size(), 2U);
  EXPECT_EQ(started.at(JobId(1)).slice.profile, "1g.18gb");
  EXPECT_EQ(started.at(JobId(1)).gpus, GpuSet::Of({1}));
  EXPECT_EQ(started.at(JobId(2)).slice.profile, "1g.35gb");
  // Once the small instances are full, the other model provides a larger one.
  for (std::uint64_t id = 3; id <= 9; ++id) world.Submit(Slice(id, ">=16G"));
  const auto more = Start(world);
  EXPECT_EQ(std::ranges::count_if(more, [](const auto& one) { return one.second.slice.profile == "3g.20gb"; }), 2);
}

TEST(SchedulerSlices, AreAdoptedUnchanged) {
  World world;
  Give(world, 1);
  world.Submit(Slice(1, "2g.20gb"));
  const auto started = Start(world);
  RunningJob job = *world.scheduler.running(JobId(1));
  EXPECT_EQ(job.slice, started.at(JobId(1)).slice);
  world.scheduler.Finish(JobId(1));
  world.Check();
  // The GPU is reported again and can no longer be cut; the running job stays.
  NodeCapacity capacity = world.scheduler.capacity();
  world.scheduler.Adopt(job);
  world.Check();
  capacity.gpus[0].slices.clear();
  world.scheduler.SetCapacity(capacity);
  world.Check();
  world.Submit(World::Job(2, 1));
  EXPECT_TRUE(Start(world).empty());
  world.scheduler.Finish(JobId(1));
  EXPECT_EQ(Start(world).size(), 1U);
}

TEST(SchedulerSlices, AGpuThatStaysInMigModeRunsSlicesOnly) {
  World world;
  Give(world, 1, "NVIDIA A100-SXM4-80GB", 80_GiB, true);
  EXPECT_EQ(Refusal(world, World::Job(1, 1).request),
            "asks for 1 GPU, but 1 of the 1 here is in MIG mode and takes slices only; --slice 1g asks for one");
  WaitingEntry stubborn = World::Job(1, 1);
  world.Submit(stubborn);
  world.Submit(Slice(2, "7g"));
  const auto started = Start(world);
  ASSERT_EQ(started.size(), 1U);
  EXPECT_EQ(started.at(JobId(2)).slice.profile, "7g.80gb");
  world.scheduler.Finish(JobId(2));
  EXPECT_TRUE(Start(world).empty());
}

TEST(SchedulerSlices, AnImpossibleRequestIsRefusedWithWhatExists) {
  World world;
  world.Node(1);
  EXPECT_NE(Refusal(world, Slice(1, "1g.10gb").request).find("supports MIG; request a GPU fraction: --gpus 0.25"),
            std::string::npos);
  World capable;
  Give(capable, 1);
  NodeCapacity capacity = capable.scheduler.capacity();
  capacity.gpus[0].slices.clear();
  capable.scheduler.SetCapacity(capacity);
  EXPECT_NE(Refusal(capable, Slice(1, "1g.10gb").request).find("is in MIG mode; nvidia-smi -i N -mig 1"),
            std::string::npos);
  for (const char* never : {"1g.18gb", ">=160G"})
    EXPECT_NE(Refusal(capable, Slice(1, never).request).find("in MIG mode or not"), std::string::npos) << never;
  World world_of_h100;
  Give(world_of_h100, 1);
  const std::string refusal = Refusal(world_of_h100, Slice(1, "1g.18gb").request);
  EXPECT_NE(refusal.find("supports it; available: --slice 1g.10gb (9.8 GiB), "), std::string::npos) << refusal;
  EXPECT_NE(Refusal(world_of_h100, Slice(1, ">=200G").request).find("supports it; available"), std::string::npos);
  EXPECT_EQ(Refusal(world_of_h100, Slice(1, ">=40G").request).find("supports it; available"), std::string::npos);
}

TEST(SchedulerSlices, AWaitingJobIsToldWhichSliceWouldStart) {
  World world;
  Give(world, 1);
  world.Submit(Slice(1, "4g.40gb"));
  ASSERT_EQ(Start(world).size(), 1U);
  world.Submit(Slice(2, "4g.40gb"));
  EXPECT_TRUE(Start(world).empty());
  const core::Explanation answer = Explain(world.scheduler, JobId(2), world.now);
  ASSERT_FALSE(answer.blockers.empty());
  EXPECT_EQ(answer.blockers.front().text,
            "needs a 4g slice of a GPU of type NVIDIA H100 80GB HBM3, and no GPU has room for one");
  EXPECT_TRUE(answer.change_text().starts_with("--slice 3g")) << answer.change_text();
  EXPECT_TRUE(answer.change_text().ends_with("(GPU 0 has room)")) << answer.change_text();
}

// Only jobs on GPUs that can be cut are holders for a slice, and only jobs on GPUs outside MIG mode for a fraction.
TEST(SchedulerSlices, WhyNamesOnlyHoldersThatCouldMakeRoom) {
  World world;
  Give(world, 1, "NVIDIA H100 80GB HBM3", 80_GiB, true);
  NodeCapacity capacity = world.scheduler.capacity();
  World::AddGpu(capacity, "NVIDIA H100 80GB HBM3", 80_GiB);
  world.scheduler.SetCapacity(std::move(capacity));
  world.Submit(Slice(1, "4g.40gb"));
  world.Submit(World::Job(2, 1));
  ASSERT_EQ(Start(world).size(), 2U);
  world.Submit(Slice(3, "7g"));
  WaitingEntry part = World::Job(4, 1);
  part.request.portion.request = GpuShare(5'000);
  world.Submit(part);
  EXPECT_TRUE(Start(world).empty());
  const auto named = [&](std::uint64_t id) {
    const core::Explanation why = Explain(world.scheduler, JobId(id), world.now);
    std::vector<JobId> jobs;
    for (const core::Holder& holder : why.blockers.front().holders) jobs.push_back(holder.job);
    return jobs;
  };
  EXPECT_EQ(named(3), std::vector{JobId(1)});
  EXPECT_EQ(named(4), std::vector{JobId(2)});
}

// Two nodes with the same GPUs, one with a newer driver that knows more profiles.
TEST(SchedulerSlices, ANodeWithANewerDriverAddsItsProfiles) {
  for (const bool is_new_first : {true, false}) {
    World world;
    Give(world, 1);
    const NodeCapacity newer = world.scheduler.capacity();
    NodeCapacity older = newer;
    std::erase_if(older.gpus[0].slices, [](const SliceProfile& profile) { return profile.size == 2; });
    if (!is_new_first) world.scheduler.SetCapacity(older);
    world.scheduler.SetNode(1, {"n1"}, {});
    world.Submit(Slice(1, "2g.20gb"));
    world.scheduler.SetNode(2, {"n2"}, is_new_first ? older : newer);
    world.scheduler.SetTakesWork(2, true, "");
    world.Submit(Slice(2, "2g.20gb"));
    EXPECT_EQ(Start(world).size(), 2U) << is_new_first;
  }
}

}  // namespace slices_test
}  // namespace divvy
