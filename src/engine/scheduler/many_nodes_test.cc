// Several nodes: where jobs are placed, what a gang gets, and how messages describe it.
#include <gtest/gtest.h>

#include <functional>

#include "engine/scheduler/test_world.h"

namespace divvy {
namespace many_nodes_test {

using namespace std::chrono_literals;

NodeCapacity Capacity(int gpus, int cpus = 64, const std::string& model = "NVIDIA H100 80GB HBM3") {
  NodeCapacity capacity;
  for (int i = 0; i < gpus; ++i) World::AddGpu(capacity, model, 80_GiB);
  capacity.cpus = cpus;
  capacity.memory = 512_GiB;
  return capacity;
}

NodeAttributes Named(const std::string& name) {
  NodeAttributes attributes;
  attributes.name = name;
  return attributes;
}

struct Machines : World {
  explicit Machines(int count, int gpus = 8, int own_gpus = 0) {
    scheduler.SetNode(kOwnNode, Named("head"), Capacity(own_gpus));
    for (int i = 1; i <= count; ++i) {
      scheduler.SetNode(static_cast<NodeIndex>(i), Named("n" + std::to_string(i)), Capacity(gpus));
    }
    Check();
  }

  std::vector<StartDecision> Decide() {
    scheduler.SetPolicy(policy);
    auto decided = scheduler.Decide(now, [](JobId entry) { return entry; });
    Check();
    last_plan = decided.plan;
    return decided.plan.starts;
  }
};

WaitingEntry Gang(std::uint64_t id, int nodes, int gpus) {
  WaitingEntry entry = World::Job(id, gpus);
  entry.request.nodes = nodes;
  entry.request.tasks = nodes;
  return entry;
}

TEST(ManyNodes, WhyNamesNodesWhoseGpusAreRestricted) {
  Machines world(2, 2);
  for (const GpuIndex gpu : {GpuIndex{0}, GpuIndex{1}})
    world.scheduler.SetAvailability(1, gpu, {.is_restricted = true, .fault = "", .unmanaged = ""});
  world.Submit(Gang(1, 2, 1));
  EXPECT_TRUE(world.Decide().empty());
  const core::Explanation why = Explain(world.scheduler, JobId(1), world.now);
  ASSERT_EQ(why.blockers.size(), 1U);
  EXPECT_TRUE(why.blockers[0].text.ends_with("on n1 GPUs 0 and 1 are restricted")) << why.blockers[0].text;
}

TEST(ManyNodes, JobsFillOneNodeAfterTheOther) {
  Machines world(2, 2);
  for (std::uint64_t id = 1; id <= 5; ++id) world.Submit(World::Job(id, 1));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 4U);
  EXPECT_EQ(starts[0].node, 1U);
  EXPECT_EQ(starts[1].node, 1U);
  EXPECT_EQ(starts[2].node, 2U);
  EXPECT_EQ(starts[3].node, 2U);
  EXPECT_EQ(world.scheduler.free_count(), 0);
  EXPECT_EQ(world.scheduler.holders(2, 1), std::vector{JobId(4)});
  world.scheduler.Finish(JobId(2));
  const auto next = world.Decide();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].node, 1U);
  EXPECT_EQ(next[0].gpus, GpuSet::Of({1}));
}

TEST(ManyNodes, AGangOfTwoNodesUsesTwoEvenIfOneHasRoomForBoth) {
  Machines world(2, 8);
  world.Submit(Gang(1, 2, 4));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  ASSERT_EQ(starts[0].gang.size(), 2U);
  EXPECT_NE(starts[0].gang[0].node, starts[0].gang[1].node);
  EXPECT_EQ(starts[0].gang[0].gpus.size(), 4);
  EXPECT_EQ(starts[0].gang[1].gpus.size(), 4);
  EXPECT_EQ(starts[0].gang[0].node, starts[0].node);
  EXPECT_EQ(starts[0].gang[0].gpus, starts[0].gpus);
}

TEST(ManyNodes, AGangWaitsUntilTwoNodesHaveRoom) {
  Machines world(2, 4);
  world.Submit(World::Job(1, 2, 1h));
  ASSERT_EQ(world.Decide().size(), 1U);
  world.Submit(Gang(2, 2, 4));
  EXPECT_TRUE(world.Decide().empty());
  EXPECT_EQ(world.scheduler.free_count(), 6);
  const core::Explanation why = Explain(world.scheduler, JobId(2), world.now);
  ASSERT_FALSE(why.blockers.empty());
  EXPECT_NE(why.blockers.front().text.find("2"), std::string::npos) << why.blockers.front().text;
  world.now += 1h;
  EXPECT_EQ(world.EndDue().size(), 1U);
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].gang.size(), 2U);
}

WaitingEntry Uneven(std::uint64_t id, int nodes, int gpus, int short_nodes) {
  WaitingEntry entry = Gang(id, nodes, gpus);
  entry.request.short_nodes = short_nodes;
  return entry;
}

TEST(ManyNodes, AGangWithAnOddNumberOfGpusGetsExactlyThese) {
  Machines world(2, 4);
  world.Submit(Uneven(1, 2, 2, 1));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  ASSERT_EQ(starts[0].gang.size(), 2U);
  EXPECT_EQ(starts[0].gang[0].gpus.size(), 2);
  EXPECT_EQ(starts[0].gang[1].gpus.size(), 1);
  EXPECT_NE(starts[0].gang[0].node, starts[0].gang[1].node);
  EXPECT_EQ(world.scheduler.free_count(), 5);
  world.scheduler.Finish(JobId(1));
  world.Check();
  EXPECT_EQ(world.scheduler.free_count(), 8);
}

TEST(ManyNodes, AGangWithAnOddNumberOfGpusWaitsForBothNodes) {
  Machines world(2, 2);
  world.Submit(World::Job(1, 1, 1h));
  world.Submit(World::Job(2, 2, 2h));
  ASSERT_EQ(world.Decide().size(), 2U);
  world.Submit(Uneven(3, 2, 2, 1));
  EXPECT_TRUE(world.Decide().empty());
  const core::Explanation why = Explain(world.scheduler, JobId(3), world.now);
  ASSERT_EQ(why.blockers.size(), 2U);
  EXPECT_EQ(why.blockers[0].text, "needs 2 GPUs on one node, 1 is free");
  EXPECT_EQ(why.blockers[1].text, "needs 2 nodes with 1 GPU at once; there is room for 1 of them, 1 is free");
  world.now += 1h;
  EXPECT_EQ(world.EndDue().size(), 1U);
  EXPECT_TRUE(world.Decide().empty()) << "one node has both GPUs free, the other has none";
  world.now += 1h;
  EXPECT_EQ(world.EndDue().size(), 1U);
  EXPECT_EQ(world.Decide().size(), 1U);
}

TEST(ManyNodes, AGangWithAnOddNumberOfGpusIsRefusedIfItCanNeverStart) {
  Machines world(2, 2);
  EXPECT_TRUE(CheckFeasible(world.scheduler, Uneven(1, 2, 2, 1).request));
  for (const WaitingEntry& entry : {Uneven(1, 2, 3, 1), Uneven(1, 3, 2, 2), Uneven(1, 3, 2, 1)}) {
    const Status status = CheckFeasible(world.scheduler, entry.request);
    EXPECT_FALSE(status) << entry.request.nodes << " nodes with " << entry.request.gpus;
  }
  Machines mixed(1, 2);
  mixed.scheduler.SetNode(2, Named("small"), Capacity(1));
  EXPECT_TRUE(CheckFeasible(mixed.scheduler, Uneven(1, 2, 2, 1).request));
  EXPECT_FALSE(CheckFeasible(mixed.scheduler, Gang(1, 2, 2).request));
}

TEST(ManyNodes, AGangOfThreeNodesIsRefusedInAClusterOfTwo) {
  Machines world(2, 8);
  const Status status = CheckFeasible(world.scheduler, Gang(1, 3, 4).request);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("3"), std::string::npos) << status.error().message;
  EXPECT_TRUE(CheckFeasible(world.scheduler, Gang(1, 2, 8).request));
}

TEST(ManyNodes, TheErrorOfASingleNodeClusterSaysHowOthersJoin) {
  World world;
  world.Node(8);
  const Status status = CheckFeasible(world.scheduler, Gang(1, 2, 4).request);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("divvy token create --node"), std::string::npos) << status.error().message;
}

TEST(ManyNodes, SpreadableTasksUseOneNodeIfTheyFitAndOtherwiseAsFewAsPossible) {
  Machines world(3, 8);
  WaitingEntry entry = World::Job(1, 8);
  entry.request.tasks = 8;
  entry.request.spreads_tasks = true;
  entry.request.cpus = 16;
  world.Submit(entry);
  auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_TRUE(starts[0].gang.empty());
  EXPECT_EQ(starts[0].gpus.size(), 8);
  entry.id = JobId(2);
  entry.request.gpus = entry.request.tasks = 12;
  world.Submit(entry);
  starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  ASSERT_EQ(starts[0].gang.size(), 2U);
  EXPECT_EQ(starts[0].gang[0].tasks + starts[0].gang[1].tasks, 12);
  EXPECT_EQ(starts[0].gang[0].gpus.size(), starts[0].gang[0].tasks);
  EXPECT_EQ(world.scheduler.running(JobId(2))->gpu_count(), 12);
}

TEST(ManyNodes, ACordonedNodeKeepsItsRunningJobs) {
  Machines world(2, 2);
  world.Submit(World::Job(1, 2));
  ASSERT_EQ(world.Decide().front().node, 1U);
  world.scheduler.SetTakesWork(1, false, "node n1 is cordoned");
  world.scheduler.SetTakesWork(2, false, "node n2 is cordoned");
  world.Submit(World::Job(2, 1));
  EXPECT_TRUE(world.Decide().empty());
  EXPECT_EQ(world.scheduler.free_count(), 0);
  EXPECT_NE(world.scheduler.running(JobId(1)), nullptr);
  world.scheduler.SetTakesWork(2, true, "");
  ASSERT_EQ(world.Decide().size(), 1U);
}

TEST(ManyNodes, ANodeMayJoinWhileJobsRunAndWait) {
  Machines world(1, 2);
  world.Submit(World::Job(1, 2));
  world.Submit(World::Job(2, 2));
  ASSERT_EQ(world.Decide().size(), 1U);
  world.scheduler.SetNode(2, Named("n2"), Capacity(2));
  world.Check();
  auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].node, 2U);
  // A capacity of another kind rebuilds the core.
  world.scheduler.SetNode(3, Named("n3"), Capacity(4, 64, "NVIDIA A100-SXM4-40GB"));
  world.Check();
  WaitingEntry entry = World::Job(3, 2);
  entry.request.gpu_type = "a100";
  world.Submit(entry);
  starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].node, 3U);
}

TEST(ManyNodes, AGangThatRanBeforeIsAdoptedWhereItIs) {
  Machines world(3, 4);
  RunningJob job;
  job.id = JobId(7);
  job.node = 2;
  job.gpus = GpuSet::Of({0, 1});
  job.cpus = 4;
  job.gang = {{2, GpuSet::Of({0, 1}), 2, 4, Bytes(0)}, {3, GpuSet::Of({3}), 1, 2, Bytes(0)}};
  job.request.gpus = 3;
  job.request.tasks = 3;
  job.request.spreads_tasks = true;
  job.started = world.now;
  world.scheduler.Adopt(job);
  world.Check();
  EXPECT_EQ(world.scheduler.holders(3, 3), std::vector{JobId(7)});
  EXPECT_EQ(world.scheduler.node(2).cpus_claimed, 4);
  EXPECT_EQ(world.scheduler.free_count(), 9);
  world.scheduler.Finish(JobId(7));
  world.Check();
  EXPECT_EQ(world.scheduler.free_count(), 12);
}

TEST(ManyNodes, ARemovedNodeHasNoGpusAndKeepsItsIndexForItsReturn) {
  Machines world(2, 2);
  world.scheduler.SetNode(2, Named("n2"), NodeCapacity());
  world.Check();
  EXPECT_EQ(world.scheduler.gpu_count(), 2);
  EXPECT_EQ(world.scheduler.FindNode("n2"), NodeIndex{2});
  world.scheduler.SetNode(2, Named("n2"), Capacity(4));
  world.Check();
  EXPECT_EQ(world.scheduler.gpu_count(), 6);
}

// --- Choice of nodes ---------------------------------------------------------------------------------------------

struct Racks : Machines {
  Racks() : Machines(0) {
    Add("n1", {"ib"}, {"train"}, "r1");
    Add("n2", {"ib", "nvme"}, {"train", "debug"}, "r1");
    Add("n3", {"nvme"}, {"debug"}, "r2");
    Check();
  }
  void Add(const std::string& name, std::vector<std::string> features, std::vector<std::string> pools,
           const std::string& rack) {
    NodeAttributes attributes = Named(name);
    attributes.features = std::move(features);
    attributes.pools = std::move(pools);
    attributes.rack = rack;
    scheduler.SetNode(static_cast<NodeIndex>(scheduler.nodes().size()), attributes, Capacity(4));
  }
  /// The node on which a job with this request starts; 0: none.
  NodeIndex Where(const std::function<void(WaitingEntry&)>& wish) {
    WaitingEntry entry = World::Job(next_, 2);
    wish(entry);
    if (!CheckFeasible(scheduler, entry.request, entry.pool)) return 0;
    Submit(entry);
    const auto starts = Decide();
    if (starts.size() == 1) scheduler.Finish(JobId(next_));
    else scheduler.Remove(JobId(next_));
    ++next_;
    Check();
    return starts.size() == 1 ? starts[0].node : 0;
  }
  std::uint64_t next_ = 1;
};

TEST(NodeSelection, FeaturesPoolsAndListsSelectNodes) {
  Racks world;
  EXPECT_EQ(world.Where([](auto& job) { job.request.constraint = "ib&nvme"; }), 2U);
  EXPECT_EQ(world.Where([](auto& job) { job.request.constraint = "nvme"; }), 2U);
  EXPECT_EQ(world.Where([](auto& job) { job.request.constraint = "ib|nvme"; }), 1U);
  EXPECT_EQ(world.Where([](auto& job) { job.request.constraint = "h100"; }), 1U);
  EXPECT_EQ(world.Where([](auto& job) { job.request.constraint = "gold"; }), 0U);
  EXPECT_EQ(world.Where([](auto& job) { job.pool = "debug"; }), 2U);
  EXPECT_EQ(world.Where([](auto& job) { job.pool = "gpu,debug"; }), 2U);
  EXPECT_EQ(world.Where([](auto& job) { job.request.node_list = {"n3"}; }), 3U);
  EXPECT_EQ(world.Where([](auto& job) { job.request.excluded_nodes = {"n1", "n2"}; }), 3U);
  EXPECT_EQ(world.Where([](auto& job) {
    job.pool = "debug";
    job.request.excluded_nodes = {"n2"};
  }),
            3U);
}

TEST(NodeSelection, ARequiredRackOrBlockIsKept) {
  Racks world;
  const auto on = [&](int nodes, TopologyNeed need, bool is_required) {
    Request request;
    request.gpus = 3;
    request.nodes = request.tasks = nodes;
    request.topology = need;
    request.requires_topology = is_required;
    const Status feasible = CheckFeasible(world.scheduler, request);
    return feasible ? std::string("fits") : feasible.error().message;
  };
  EXPECT_EQ(on(2, TopologyNeed::kRack, true), "fits");
  EXPECT_EQ(on(3, TopologyNeed::kRack, false), "fits");
  EXPECT_EQ(on(3, TopologyNeed::kAny, false), "fits");
  EXPECT_NE(on(3, TopologyNeed::kRack, true).find("rack"), std::string::npos) << on(3, TopologyNeed::kRack, true);
  // n1 is taken: two nodes are free, but in different racks.
  world.Submit(World::Job(100, 4));
  ASSERT_EQ(world.Decide().size(), 1U);
  WaitingEntry entry = World::Job(101, 3);
  entry.request.nodes = entry.request.tasks = 2;
  entry.request.topology = TopologyNeed::kRack;
  entry.request.requires_topology = true;
  world.Submit(entry);
  EXPECT_TRUE(world.Decide().empty());
  const core::Explanation why = Explain(world.scheduler, JobId(101), world.now);
  ASSERT_FALSE(why.blockers.empty());
  EXPECT_NE(why.blockers.front().text.find("in one rack"), std::string::npos) << why.blockers.front().text;
  EXPECT_EQ(why.blockers.front().rule, "--topology rack:required");
}

TEST(NodeSelection, ARefusalNamesWhatNoNodeHas) {
  Racks world;
  Request request;
  request.gpus = 1;
  request.constraint = "gold";
  EXPECT_NE(CheckFeasible(world.scheduler, request).error().message.find("gold"), std::string::npos)
      << CheckFeasible(world.scheduler, request).error().message;
  request.constraint = "ib&(";
  EXPECT_FALSE(CheckFeasible(world.scheduler, request));
  request.constraint.clear();
  EXPECT_NE(CheckFeasible(world.scheduler, request, "gpu").error().message.find("gpu"), std::string::npos)
      << CheckFeasible(world.scheduler, request, "gpu").error().message;
}

TEST(NodeSelection, AJobThatWaitsForAFeatureIsToldSo) {
  Racks world;
  WaitingEntry first = World::Job(50, 4);
  first.request.constraint = "ib&nvme";
  world.Submit(first);
  ASSERT_EQ(world.Decide().size(), 1U);
  WaitingEntry second = World::Job(51, 4);
  second.request.constraint = "ib&nvme";
  world.Submit(second);
  EXPECT_TRUE(world.Decide().empty());
  const core::Explanation why = Explain(world.scheduler, JobId(51), world.now);
  ASSERT_FALSE(why.blockers.empty());
  EXPECT_NE(why.blockers.front().text.find("ib"), std::string::npos) << why.blockers.front().text;
  EXPECT_FALSE(why.change_text().empty());
}

TEST(NodeSelection, AGangPrefersOneRack) {
  Racks world;
  world.Submit(World::Job(60, 4));
  ASSERT_EQ(world.Decide().front().node, 1U);
  world.Add("n4", {}, {}, "r2");
  world.Submit(Gang(61, 2, 4));
  const auto starts = world.Decide();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(world.scheduler.node(starts[0].gang[0].node).attributes.rack, "r2");
  EXPECT_EQ(world.scheduler.node(starts[0].gang[1].node).attributes.rack, "r2");
}

TEST(NodeSelection, AChangedLabelMovesNoJobAndCountsForLaterOnes) {
  Racks world;
  WaitingEntry entry = World::Job(70, 2);
  entry.request.constraint = "nvme";
  world.Submit(entry);
  ASSERT_EQ(world.Decide().front().node, 2U);
  NodeAttributes attributes = world.scheduler.node(1).attributes;
  attributes.features = {"ib", "nvme"};
  world.scheduler.SetNode(1, attributes, world.scheduler.node(1).capacity);
  world.Check();
  EXPECT_EQ(world.scheduler.running(JobId(70))->node, 2U);
  EXPECT_EQ(world.Where([](auto& job) {
    job.request.constraint = "nvme";
    job.request.excluded_nodes = {"n2", "n3"};
  }),
            1U);
}

}  // namespace many_nodes_test
}  // namespace divvy
