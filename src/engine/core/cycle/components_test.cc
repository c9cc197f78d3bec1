// Placer the components of one request: every result is valid, and on small clusters a placement is found whenever an
// exhaustive oracle finds one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "engine/core/explain/feasible.h"
#include "engine/core/place/earliest.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"
#include "engine/core/state/state.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace components_test {

/// Nodes of two models, one kind each.
Cluster TwoModels(const std::vector<std::pair<int, int>>& model_and_gpus) {
  Cluster cluster{Rules()};
  int index = 0;
  for (const auto& [model, gpus] : model_and_gpus) {
    NodeFacts facts = PlainNode(index, gpus);
    facts.node_class = facts.gpu_model = model;
    facts.rack = static_cast<std::uint32_t>(1 + index / 2);
    ++index;
    cluster.AddNode(facts);
  }
  return cluster;
}

struct Wanted {
  int gpus = 1;
  int tasks = 1;
  bool anti_affinity = false;
  placement::ModelSet models = placement::kAnyModel;
};

ResourceRequest Of(const std::vector<Wanted>& wanted) {
  ResourceRequest request;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    TaskGroup group = GpuRequest(wanted[i].gpus, wanted[i].tasks).groups.front();
    group.alternatives.front().models = wanted[i].models;
    group.anti_affinity = wanted[i].anti_affinity;
    group.component = static_cast<std::uint8_t>(i);
    request.groups.push_back(group);
  }
  return request;
}

/// `is_proven`: set if nothing was found and nothing exists.
std::vector<TaskPlacement> Find(Cluster& cluster, const ResourceRequest& request, bool* is_proven = nullptr) {
  Placer placing(cluster.state(), At(0), At(0));
  std::vector<TaskPlacement> placements = placing.Find(request, Duration(0), {}, true, kRootTeam, 0);
  if (is_proven != nullptr) *is_proven = placing.is_proven() && placements.empty();
  return placements;
}

/// Returns "", or what is wrong with a result.
std::string Wrong(const Cluster& cluster, const ResourceRequest& request,
                  const std::vector<TaskPlacement>& placements) {
  std::map<NodeIndex, GpuSet> taken;
  std::map<int, int> tasks;
  std::map<int, std::set<NodeIndex>> nodes;
  std::map<int, std::set<int>> models;
  for (const TaskPlacement& placed : placements) {
    const TaskGroup& group = request.groups[placed.group];
    const Shape& shape = ShapeOf(request, placed);
    if (!(taken[placed.node] & placed.place.gpus).empty()) return "a GPU twice";
    taken[placed.node] |= placed.place.gpus;
    if (placed.place.gpus.size() != shape.gpus) return "another number of GPUs";
    if (((shape.models >> cluster.node(placed.node).node_class) & 1) == 0) return "on another model";
    tasks[placed.group] += 1;
    if (!nodes[placed.group].insert(placed.node).second && group.anti_affinity) return "two that are apart on one node";
    if (shape.gpus > 0) models[placed.group].insert(cluster.node(placed.node).gpu_model);
  }
  for (std::size_t i = 0; i < request.groups.size(); ++i) {
    if (tasks[static_cast<int>(i)] != request.groups[i].least) return "another number of tasks";
    if (request.groups[i].least > 1 && models[static_cast<int>(i)].size() > 1) return "a component on two models";
  }
  return "";
}

/// Returns whether any placement exists, trying all of them task by task.
bool IsPossible(const Cluster& cluster, const std::vector<Wanted>& wanted, std::vector<int>& free, std::size_t at,
                int task, std::set<NodeIndex>& own, int model) {
  if (at == wanted.size()) return true;
  const Wanted& one = wanted[at];
  if (task == one.tasks) {
    std::set<NodeIndex> none;
    return IsPossible(cluster, wanted, free, at + 1, 0, none, -1);
  }
  for (NodeIndex node = 0; node < cluster.node_count(); ++node) {
    const int its = cluster.node(node).gpu_model;
    if (free[node] < one.gpus || ((one.models >> its) & 1) == 0 || (one.anti_affinity && own.contains(node))) continue;
    if (one.gpus > 0 && model >= 0 && its != model) continue;
    const bool is_new = own.insert(node).second;
    free[node] -= one.gpus;
    const bool can = IsPossible(cluster, wanted, free, at, task + 1, own, one.gpus > 0 ? its : model);
    free[node] += one.gpus;
    if (is_new) own.erase(node);
    if (can) return true;
  }
  return false;
}

TEST(PlaceComponents, AreFoundWheneverAPlacementExistsOnSmallClusters) {
  int possible = 0;
  int impossible = 0;
  int missed = 0;
  int proven = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Draws draws(seed);
    std::vector<std::pair<int, int>> nodes;
    for (int i = 2 + draws.Below(3); i > 0; --i) {
      const int model = draws.Below(2);
      nodes.emplace_back(model, 1 + draws.Below(4));
    }
    std::vector<Wanted> wanted;
    for (int i = 2 + draws.Below(2); i > 0; --i) {
      Wanted one;
      one.gpus = 1 + draws.Below(3);
      one.tasks = 1 + draws.Below(2);
      one.anti_affinity = draws.Below(2) == 0;
      const int models = draws.Below(3);
      if (models > 0) one.models = placement::ModelSet{1} << (models - 1);
      wanted.push_back(one);
    }
    Cluster cluster = TwoModels(nodes);
    const ResourceRequest request = Of(wanted);
    bool is_proven = false;
    const std::vector<TaskPlacement> placements = Find(cluster, request, &is_proven);
    if (!placements.empty()) {
      ASSERT_EQ(Wrong(cluster, request, placements), "") << "seed " << seed;
    }
    std::vector<int> free;
    for (const auto& [model, gpus] : nodes) free.push_back(gpus);
    std::set<NodeIndex> own;
    const bool can = IsPossible(cluster, wanted, free, 0, 0, own, -1);
    (can ? possible : impossible) += 1;
    ASSERT_TRUE(can || placements.empty()) << "seed " << seed;
    missed += can && placements.empty();
    ASSERT_FALSE(can && is_proven) << "seed " << seed;
    proven += is_proven;
    // The search leaves no trace.
    ASSERT_EQ(cluster.CheckInvariants(), "") << "seed " << seed;
  }
  EXPECT_GT(possible, 500);
  EXPECT_GT(impossible, 500);
  EXPECT_GT(proven, 500) << "of " << impossible;
  EXPECT_LE(missed * 200, possible) << missed << " of " << possible << " that are possible were not found";
}

/// Two GPUs on some nodes and one on others, for example. Any node with room for the larger number has room for the
/// smaller one, so counting nodes is an exact oracle.
TEST(UnevenNodes, AreFoundExactlyIfTheyExist) {
  int possible = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Draws draws(seed);
    std::vector<std::pair<int, int>> nodes;
    for (int i = 1 + draws.Below(5); i > 0; --i) {
      const int model = draws.Below(2);
      nodes.emplace_back(model, 1 + draws.Below(4));
    }
    const int gpus = 2 + draws.Below(3);
    const int full = 1 + draws.Below(2);
    const int less = 1 + draws.Below(2);
    ResourceRequest request = Of({{gpus, full, true}, {gpus - 1, less, true}});
    for (TaskGroup& group : request.groups) group.component = 0;
    if (draws.Below(2) == 0) request.locality = Locality::kRack;
    Cluster cluster = TwoModels(nodes);
    bool can = false;
    for (int model = 0; model < 2; ++model) {
      const auto with = [&](int least) {
        return std::count_if(nodes.begin(), nodes.end(),
                             [&](const auto& node) { return node.first == model && node.second >= least; });
      };
      can = can || (with(gpus) >= full && with(gpus - 1) >= full + less);
    }
    possible += can;
    const std::vector<TaskPlacement> placements = Find(cluster, request);
    ASSERT_EQ(!placements.empty(), can) << "seed " << seed;
    ASSERT_EQ(static_cast<bool>(Feasible(cluster, request)), can) << "seed " << seed;
    if (!can) continue;
    ASSERT_TRUE(CouldRun(cluster.state(), request)) << "seed " << seed;
    ASSERT_EQ(Wrong(cluster, request, placements), "") << "seed " << seed;
    std::set<NodeIndex> used;
    for (const TaskPlacement& placed : placements) used.insert(placed.node);
    ASSERT_EQ(used.size(), placements.size()) << "seed " << seed;
  }
  EXPECT_GT(possible, 300);
  EXPECT_LT(possible, 2700);
}

TEST(PlaceComponents, TaskPlacementsNameTheirComponent) {
  Cluster cluster = TwoModels({{0, 2}, {1, 4}});
  const std::vector<TaskPlacement> placements = Find(cluster, Of({{1, 2, false, 2}, {2, 1, false, 1}}));
  ASSERT_EQ(placements.size(), 3U);
  EXPECT_EQ(placements[0].group, 0);
  EXPECT_EQ(placements[0].node, 1U);
  EXPECT_EQ(placements[2].group, 1);
  EXPECT_EQ(placements[2].node, 0U);
}

}  // namespace components_test
}  // namespace divvy::core
