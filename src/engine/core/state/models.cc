#include "engine/core/state/models.h"

#include <algorithm>
#include <set>

namespace divvy::core {

bool HasModel(const NodeFacts& facts, int model) {
  if (facts.gpu_models.empty()) return facts.gpu_model == model;
  return std::find(facts.gpu_models.begin(), facts.gpu_models.end(), model) != facts.gpu_models.end();
}

GpuMask NotOfKind(const NodeFacts& facts, const Shape& shape) {
  GpuMask others = 0;
  for (std::size_t gpu = 0; gpu < facts.gpu_kinds.size(); ++gpu) {
    if (((shape.models >> facts.gpu_kinds[gpu]) & 1) == 0) others = static_cast<GpuMask>(others | (1u << gpu));
  }
  return others;
}

GpuMask NotOfModel(const NodeFacts& facts, int model) {
  GpuMask others = 0;
  for (int gpu = 0; gpu < facts.gpus; ++gpu) {
    if (ModelOf(facts, gpu) != model) others = static_cast<GpuMask>(others | (1u << gpu));
  }
  return others;
}

NodeState SeenBy(const NodeFacts& facts, const NodeState& state, const Shape& shape, std::optional<int> model) {
  if (shape.gpus == 0) return state;
  GpuMask others = NotOfKind(facts, shape);
  if (model) others = static_cast<GpuMask>(others | NotOfModel(facts, *model));
  NodeState seen = state;
  if (others != 0) placement::Block(seen, others);
  return seen;
}

std::vector<int> ModelsFor(const Cluster::State& state, const Ask& ask) {
  std::set<int> models;
  for (const Node& node : state.nodes) {
    for (const TaskGroup& group : ask.groups) {
      for (const Shape& shape : group.alternatives) {
        if (shape.gpus == 0 || shape.gpus > node.facts.gpus || ((shape.models >> node.facts.kind) & 1) == 0) continue;
        if (node.facts.gpu_models.empty()) {
          models.insert(node.facts.gpu_model);
          continue;
        }
        const GpuMask others = NotOfKind(node.facts, shape);
        for (int gpu = 0; gpu < node.facts.gpus; ++gpu) {
          if (((others >> gpu) & 1) == 0) models.insert(ModelOf(node.facts, gpu));
        }
      }
    }
  }
  return {models.begin(), models.end()};
}

std::vector<int> ModelsOf(const Cluster::State& state, const std::vector<Piece>& pieces) {
  std::set<int> models;
  for (const Piece& piece : pieces) {
    const NodeFacts& facts = state.nodes[piece.node].facts;
    const GpuMask gpus = placement::GpusOf(piece.gpus);
    for (int gpu = 0; gpu < facts.gpus; ++gpu) {
      if (((gpus >> gpu) & 1) != 0) models.insert(ModelOf(facts, gpu));
    }
  }
  return {models.begin(), models.end()};
}

}  // namespace divvy::core
