#include "engine/core/explain/feasible.h"

#include <gtest/gtest.h>

#include "engine/core/explain/explain_test_world.h"
#include "engine/core/explain/explanation.h"
#include "engine/core/place/earliest.h"

namespace divvy::core {
namespace feasible_test {

std::string Refusal(const Cluster& cluster, const ResourceRequest& request, const Names& names = {}) {
  const Status status = Feasible(cluster, request, names);
  return status ? "" : status.error().message;
}

TEST(Feasible, NamesTheMostThatOneNodeHas) {
  const Cluster cluster = MakeCluster(4, 8);
  EXPECT_EQ(Refusal(cluster, GpuRequest(8)), "");
  EXPECT_EQ(Refusal(cluster, GpuRequest(16)),
            "asks for 16 GPUs on one node, but the largest has 8; --gpus 8 is the maximum for one node; all nodes "
            "together have 32, for a job of several tasks");
  EXPECT_EQ(Refusal(MakeCluster(1, 8), GpuRequest(9)),
            "asks for 9 GPUs, but this server has 8; --gpus 8 is the maximum");
  EXPECT_EQ(Refusal(MakeCluster(1, 0), GpuRequest(1)),
            "asks for 1 GPU, but this server has none; leave --gpus out to run without GPUs, or add a node that has "
            "some (divvy "
            "token create --node)");
}

TEST(Feasible, CountsResourcesOutOfService) {
  Cluster cluster = MakeCluster(1, 8);
  cluster.SetUsable(0, {}, false);
  EXPECT_EQ(Refusal(cluster, GpuRequest(8)), "");
}

TEST(Feasible, NamesExistingModels) {
  const Cluster cluster = MakeCluster(2, 8);
  ResourceRequest request = GpuRequest(2);
  request.groups[0].alternatives[0].models = 4;
  Names names;
  names.models = [](placement::ModelSet) { return "of type b200"; };
  names.gpu_type_option = [](int) { return "--gpu-type h100"; };
  EXPECT_EQ(Refusal(cluster, request, names),
            "asks for 2 GPUs of type b200, but no node has any; leave --gpu-type out, or ask for --gpu-type h100");
}

TEST(Feasible, ChecksCpusAndMemoryToo) {
  Cluster cluster = MakeCluster(1, 8);
  NodeFacts big = cluster.node(0);
  big.gpus = 0;
  big.cpu_milli = 256'000;
  big.memory_mib = 4 << 20;
  cluster.AddNode(big);
  ResourceRequest request = GpuRequest(8);
  Shape& shape = request.groups[0].alternatives[0];
  shape.cpu_milli = 100'000;
  EXPECT_EQ(Refusal(cluster, request),
            "asks for 100 CPUs and 8 GPUs on one node, but the largest has 64 CPUs; --cpus 64 is the maximum for "
            "one node");
  shape.cpu_milli = 0;
  shape.memory_mib = 1 << 20;
  EXPECT_EQ(Refusal(cluster, request),
            "asks for 1 TiB of memory and 8 GPUs on one node, but the largest has 512 GiB; --memory 512G is the "
            "maximum for one node");
}

TEST(Feasible, CountsTasksModelsAndRacks) {
  Cluster cluster = MakeCluster(8, 8);
  EXPECT_EQ(Refusal(cluster, GpuRequest(8, 9)),
            "asks for 9 tasks of 8 GPUs, but the whole cluster has room for 8; --tasks 8 is the maximum");
  ResourceRequest request = GpuRequest(8, 5);
  request.locality = Locality::kRack;
  EXPECT_EQ(Refusal(cluster, request), "");
  request.requires_locality = true;
  EXPECT_EQ(Refusal(cluster, request),
            "asks for 5 tasks of 8 GPUs in one rack, but one rack has room for at most 4; --tasks 4 is the maximum; "
            "without ':required' they may be spread out");
  for (int i = 0; i < 2; ++i) {
    NodeFacts other = cluster.node(0);
    other.gpu_model = other.node_class = 1;
    cluster.AddNode(other);
  }
  EXPECT_EQ(
      Refusal(cluster, GpuRequest(8, 9)),
      "asks for 9 tasks of 8 GPUs, but the tasks of a job need GPUs of the same model: there is room for 8 on GPUs of "
      "model 0 (n0 and others) and for 2 on GPUs of model 1 (n0 and others); --tasks 8 is the maximum");
  EXPECT_EQ(Refusal(cluster, GpuRequest(8, 11)),
            "asks for 11 tasks of 8 GPUs, but the whole cluster has room for 10; --tasks 8 is the maximum, because the "
            "tasks of a job need GPUs of the same model")
      << "what is proposed is taken";
}

TEST(Feasible, ChecksTheTeamsOwnLimits) {
  Cluster cluster = MakeCluster(4, 8);
  TeamSpec team;
  team.name = "vision";
  team.limit_parts = 16 * placement::kGpuParts;
  team.quota_parts = 4 * placement::kGpuParts;
  cluster.teams().Reset({team});
  EXPECT_TRUE(FeasibleForTeam(cluster, GpuRequest(4), 1, Preemptible::kNever));
  EXPECT_TRUE(FeasibleForTeam(cluster, GpuRequest(8), 1, Preemptible::kRequeue));
  const Status quota = FeasibleForTeam(cluster, GpuRequest(8), 1, Preemptible::kNever);
  ASSERT_FALSE(quota);
  EXPECT_EQ(
      quota.error().message,
      "8 GPUs exceed team vision's quota of 4 and the job may not borrow, so it can never start; use --gpus 4, or "
      "submit it with --preemptible requeue to borrow idle GPUs, or ask an administrator: divvy teams set vision "
      "--quota 8");
  EXPECT_FALSE(FeasibleForTeam(cluster, GpuRequest(8, 3), 1, Preemptible::kRequeue));
}

// Impossible agrees with what starts on an idle cluster, and the request that it names as nearest lacks at most a later
// part.
TEST(Feasible, AgreesWithWhatStartsOnAnIdleCluster) {
  int refused = 0;
  for (std::uint64_t seed = 1; seed < 3000; ++seed) {
    Draws draws(seed);
    Cluster cluster{Rules()};
    const int nodes = 1 + draws.Below(6);
    for (int i = 0; i < nodes; ++i) {
      NodeFacts facts;
      facts.name = "n" + std::to_string(i);
      facts.cpu_milli = 4000 * (1 + draws.Below(4));
      facts.memory_mib = 1024 * (1 + draws.Below(4));
      facts.gpus = draws.Below(5);
      facts.node_class = facts.gpu_model = draws.Below(3);
      facts.rack = static_cast<std::uint32_t>(i / 2);
      if (facts.gpus > 1 && draws.Below(3) == 0) MixNodeClasses(draws, 3, facts, 4 + i);
      cluster.AddNode(facts);
    }
    ResourceRequest request = draws.Below(5) == 0 ? ShareRequest(1000 * (1 + draws.Below(9)))
                                                  : GpuRequest(draws.Below(6), 1 + draws.Below(4));
    Shape& shape = request.groups[0].alternatives[0];
    shape.cpu_milli = 1000 * draws.Below(20);
    shape.memory_mib = 512 * draws.Below(10);
    if (shape.gpus > 0 && draws.Below(3) == 0) {
      shape.models = Accepting(cluster, 1 + static_cast<placement::ModelSet>(draws.Below(15)));
    }
    if (draws.Below(3) == 0) request.widest = static_cast<Locality>(draws.Below(4));
    request.locality = static_cast<Locality>(draws.Below(4));
    request.requires_locality = draws.Below(2) == 0;
    const HardwareClasses classes(cluster.state(), HardwareClasses::Of::kAll);
    const std::optional<Lack> lack = Impossible(classes, request, Names());
    cluster.Put(MakeJob(cluster, 1, request, At(0)), At(0));
    const bool starts = !cluster.Decide(At(0)).starts.empty();
    ASSERT_EQ(!lack, starts) << "seed " << seed << ": " << (lack ? lack->text : "");
    if (!lack) continue;
    refused += 1;
    if (lack->request) {
      const auto again = Impossible(classes, *lack->request, Names());
      // A lack names one part at a time: the nearest request may lack a later part, but not the same one.
      ASSERT_TRUE(!again || again->part > lack->part) << "seed " << seed << ": " << lack->text << ", " << again->text;
    }
  }
  EXPECT_GT(refused, 300);
}

}  // namespace feasible_test
}  // namespace divvy::core
