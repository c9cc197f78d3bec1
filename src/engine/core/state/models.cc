#include "engine/core/state/models.h"

#include <algorithm>
#include <set>

namespace divvy::core {

bool HasModel(const NodeFacts& facts, int model) {
  if (facts.gpu_models.empty()) return facts.gpu_model == model;
  return std::find(facts.gpu_models.begin(), facts.gpu_models.end(), model) != facts.gpu_models.end();
}

GpuSet NotAccepted(const NodeFacts& facts, const Shape& shape) {
  GpuSet others;
  for (std::size_t gpu = 0; gpu < facts.gpu_classes.size(); ++gpu) {
    if (((shape.models >> facts.gpu_classes[gpu]) & 1) == 0) others.Insert(static_cast<int>(gpu));
  }
  return others;
}

GpuSet NotOfModel(const NodeFacts& facts, int model) {
  GpuSet others;
  for (int gpu = 0; gpu < facts.gpus; ++gpu) {
    if (ModelOf(facts, gpu) != model) others.Insert(gpu);
  }
  return others;
}

NodeState SeenBy(const NodeFacts& facts, const NodeState& state, const Shape& shape, std::optional<int> model) {
  if (shape.gpus == 0) return state;
  GpuSet others = NotAccepted(facts, shape);
  if (model) others |= NotOfModel(facts, *model);
  NodeState seen = state;
  if (!others.empty()) placement::Block(seen, others);
  return seen;
}

std::vector<int> ModelsFor(const ClusterState& state, const ResourceRequest& request) {
  std::set<int> models;
  for (const Node& node : state.nodes) {
    for (const TaskGroup& group : request.groups) {
      for (const Shape& shape : group.alternatives) {
        if (shape.gpus == 0 || shape.gpus > node.facts.gpus || ((shape.models >> node.facts.node_class) & 1) == 0)
          continue;
        if (node.facts.gpu_models.empty()) {
          models.insert(node.facts.gpu_model);
          continue;
        }
        for (const int gpu : GpuSet::FirstN(node.facts.gpus) - NotAccepted(node.facts, shape)) {
          models.insert(ModelOf(node.facts, gpu));
        }
      }
    }
  }
  return {models.begin(), models.end()};
}

std::vector<int> ModelsOf(const ClusterState& state, const std::vector<TaskPlacement>& placements) {
  std::set<int> models;
  for (const TaskPlacement& placed : placements) {
    const NodeFacts& facts = state.nodes[placed.node].facts;
    for (const int gpu : placed.place.gpus& GpuSet::FirstN(facts.gpus)) models.insert(ModelOf(facts, gpu));
  }
  return {models.begin(), models.end()};
}

}  // namespace divvy::core
