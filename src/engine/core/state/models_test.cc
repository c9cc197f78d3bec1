#include "engine/core/state/models.h"

#include <gtest/gtest.h>

#include "engine/core/explain/explain.h"
#include "engine/core/explain/feasible.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace models_test {

constexpr int kModels = 2;

Cluster MixedCluster(Draws& draws) {
  Rules rules;
  rules.order = draws.Below(2) == 0 ? QueuePolicy::kFifo : QueuePolicy::kSmallFirst;
  rules.escalate_after = std::chrono::minutes(10);
  Cluster cluster(rules);
  const int nodes = 1 + draws.Below(5);
  for (int i = 0; i < nodes; ++i) {
    NodeFacts facts;
    facts.name = "n" + std::to_string(i);
    facts.cpu_milli = 64'000;
    facts.memory_mib = 1024;
    facts.gpus = 1 + draws.Below(5);
    facts.node_class = facts.gpu_model = draws.Below(kModels);
    facts.rack = static_cast<std::uint32_t>(i / 2);
    facts.block = static_cast<std::uint32_t>(i / 4);
    if (draws.Below(2) == 0) MixNodeClasses(draws, kModels, facts, kModels + i);
    cluster.AddNode(facts);
  }
  return cluster;
}

ResourceRequest DrawnRequest(Draws& draws, const Cluster& cluster) {
  const int tasks = 1 + draws.Below(4);
  ResourceRequest request = GpuRequest(1 + draws.Below(2), tasks, tasks + (draws.Below(4) == 0 ? 2 : 0));
  Shape& shape = request.groups.front().alternatives.front();
  if (draws.Below(3) == 0) {
    shape.models = Accepting(cluster, placement::ModelSet{1} << draws.Below(kModels));
    if (draws.Below(2) == 0) {
      Shape other = shape;
      other.models = placement::kAnyModel;
      request.groups.front().alternatives.push_back(other);
    }
  }
  if (draws.Below(3) == 0) request.locality = static_cast<Locality>(draws.Below(4));
  request.requires_locality = draws.Below(4) == 0;
  if (draws.Below(4) == 0) request.widest = static_cast<Locality>(draws.Below(4));
  request.mixes_models = draws.Below(5) == 0;
  return request;
}

std::string WrongPlace(const Cluster& cluster, const ResourceRequest& request,
                       const std::vector<TaskPlacement>& placements) {
  for (const TaskPlacement& placed : placements) {
    const NodeFacts& facts = cluster.node(placed.node);
    if (!(NotAccepted(facts, ShapeOf(request, placed)) & placed.place.gpus).empty())
      return "a GPU of a kind that it does not accept";
    const auto domain_of = [&](NodeIndex node) { return DomainOf(cluster.node(node), node, WidestOf(request)); };
    if (placements.size() > 1 && domain_of(placed.node) != domain_of(placements.front().node)) return "too far apart";
  }
  if (placements.size() > 1 && !request.mixes_models && ModelsOf(cluster.state(), placements).size() > 1)
    return "several models";
  return "";
}

// Jobs that start, grow or get a reservation are on one model and within their locality. Waiting jobs are explained,
// and a decision leaves no startable job behind.
TEST(Models, EveryGangUsesOneModelOnMixedNodes) {
  int gangs = 0;
  int reservations_of_several = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Draws draws(seed);
    Cluster cluster = MixedCluster(draws);
    std::vector<JobId> jobs;
    Time now = At(0);
    for (int step = 0; step < 40; ++step) {
      now += std::chrono::seconds(draws.Below(600));
      std::erase_if(jobs, [&](JobId id) {
        const core::Run* run = cluster.running(id);
        if (run == nullptr || (run->end > now && draws.Below(6) != 0)) return false;
        cluster.Finish(id, now);
        return true;
      });
      const ResourceRequest request = DrawnRequest(draws, cluster);
      if (Feasible(cluster, request)) {
        const Duration limit =
            draws.Below(3) == 0 ? Duration(0) : Duration(std::chrono::seconds(60 + draws.Below(3000)));
        jobs.emplace_back(static_cast<std::uint64_t>(step) + 1);
        cluster.Put(MakeJob(cluster, jobs.back().value(), request, now, limit), now);
      }
      cluster.Decide(now);
      ASSERT_EQ(cluster.CheckInvariants(), "") << "seed " << seed << ", step " << step;
      for (const JobId id : jobs) {
        const core::Run* run = cluster.running(id);
        if (run == nullptr) {
          ASSERT_FALSE(Explain(cluster, id, now).blockers.empty()) << "seed " << seed << ", step " << step;
          continue;
        }
        gangs += run->placements.size() > 1 ? 1 : 0;
        const ResourceRequest& of_run = cluster.request(cluster.state().classes[run->job_class].key.request);
        ASSERT_EQ(WrongPlace(cluster, of_run, run->placements), "") << "seed " << seed << ", step " << step;
      }
      for (const BackfillReservation& reservation : cluster.reservations()) {
        reservations_of_several += reservation.placements.size() > 1 ? 1 : 0;
        const Waiting& entry = cluster.state().waiting.at(reservation.entry);
        const ResourceRequest& of_entry = cluster.request(cluster.state().classes[entry.job_class].key.request);
        ASSERT_EQ(WrongPlace(cluster, of_entry, reservation.placements), "") << "seed " << seed << ", step " << step;
      }
      Cluster copy = cluster.Copy();
      ASSERT_TRUE(copy.DecideAnew(now).starts.empty()) << "seed " << seed << ", step " << step;
    }
  }
  EXPECT_GT(gangs, 500);
  EXPECT_GT(reservations_of_several, 200);
}

TEST(Models, ASingleTaskUsesAnyMixAndThenDoesNotGrow) {
  Cluster cluster{Rules()};
  NodeFacts facts;
  facts.name = "n0";
  facts.gpus = 5;
  facts.node_class = facts.gpu_model = 2;
  facts.gpu_classes = {0, 1, 1, 1, 1};
  facts.gpu_models = {0, 1, 1, 1, 1};
  cluster.AddNode(facts);
  // On GPUs 0 and 1, one of each model.
  cluster.SetUsable(0, GpuSet::FromBits(0b00011), true);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(2, 1, 2), At(0)), At(0));
  ASSERT_EQ(cluster.Decide(At(0)).starts.size(), 1U);
  cluster.SetUsable(0, GpuSet::FromBits(0b11111), true);
  EXPECT_TRUE(cluster.Decide(At(1)).growths.empty());
  // A job on one model grows on that model.
  cluster.Finish(JobId(1), At(2));
  cluster.SetUsable(0, GpuSet::FromBits(0b00110), true);
  cluster.Put(MakeJob(cluster, 2, GpuRequest(2, 1, 2), At(2)), At(2));
  ASSERT_EQ(cluster.Decide(At(2)).starts.size(), 1U);
  cluster.SetUsable(0, GpuSet::FromBits(0b11111), true);
  EXPECT_EQ(cluster.Decide(At(3)).growths.size(), 1U);
}

}  // namespace models_test
}  // namespace divvy::core
