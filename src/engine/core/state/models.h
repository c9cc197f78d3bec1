// Tasks of one job run on GPUs of one model. Most nodes have one model; on a node that mixes them each GPU counts as
// what it is, so that such a node is as many places as it has models.
#pragma once

#include <optional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Its tasks have to keep to one model: there are several, or may be. A single task takes whatever GPUs it may have.
inline bool RunsOnOneModel(const Ask& ask) {
  return !ask.mixes_models && !IsHeterogeneous(ask) && WantsGpu(ask) && (LeastTasks(ask) > 1 || ask.groups.size() > 1);
}

inline int ModelOf(const NodeFacts& facts, int gpu) {
  return facts.gpu_models.empty() ? facts.gpu_model : facts.gpu_models[static_cast<std::size_t>(gpu)];
}
bool HasModel(const NodeFacts& facts, int model);

/// GPUs whose kind the shape does not accept; only a node that mixes kinds has such while it has others.
GpuSet NotOfKind(const NodeFacts& facts, const Shape& shape);
/// GPUs of any other model.
GpuSet NotOfModel(const NodeFacts& facts, int model);

/// `state`, one of a node with these facts, with no GPUs but those that a task of `shape` accepts, of `model` if there
/// is one. A task without GPUs sees all of it.
NodeState SeenBy(const NodeFacts& facts, const NodeState& state, const Shape& shape, std::optional<int> model = {});

/// Calls visit(model) for each model of the node's GPUs; once, with 0, where models do not matter.
template <typename Visit>
void ForEachModel(const NodeFacts& facts, bool matters, Visit visit) {
  if (!matters || facts.gpu_models.empty()) {
    visit(matters ? facts.gpu_model : 0);
    return;
  }
  for (std::size_t gpu = 0; gpu < facts.gpu_models.size(); ++gpu) {
    bool is_first = true;
    for (std::size_t i = 0; i < gpu && is_first; ++i) is_first = facts.gpu_models[i] != facts.gpu_models[gpu];
    if (is_first) visit(facts.gpu_models[gpu]);
  }
}

/// The models on which tasks of `ask` may run, ascending.
std::vector<int> ModelsFor(const Cluster::State& state, const Ask& ask);
/// Those that the GPUs of these pieces are of, ascending.
std::vector<int> ModelsOf(const Cluster::State& state, const std::vector<Piece>& pieces);

}  // namespace divvy::core
