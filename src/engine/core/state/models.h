// Tasks of one job run on GPUs of one model. Most nodes have one model. On mixed nodes each GPU counts by its own
// model, so such a node offers one place per model.
#pragma once

#include <optional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Returns whether the tasks must all run on one GPU model. A single task may use any GPUs that it accepts.
inline bool RunsOnOneModel(const ResourceRequest& request) {
  return !request.mixes_models && !IsHeterogeneous(request) && WantsGpu(request) &&
         (LeastTasks(request) > 1 || request.groups.size() > 1);
}

inline int ModelOf(const NodeFacts& facts, int gpu) {
  return facts.gpu_models.empty() ? facts.gpu_model : facts.gpu_models[static_cast<std::size_t>(gpu)];
}
bool HasModel(const NodeFacts& facts, int model);

/// GPUs whose class the shape does not accept. Nonempty only for mixed nodes.
GpuSet NotAccepted(const NodeFacts& facts, const Shape& shape);
/// GPUs of any other model than `model`.
GpuSet NotOfModel(const NodeFacts& facts, int model);

/// `state` of a node with these facts, reduced to the GPUs that a task of `shape` accepts, and to `model` if given.
/// Unchanged for a task without GPUs.
NodeState SeenBy(const NodeFacts& facts, const NodeState& state, const Shape& shape, std::optional<int> model = {});

/// Calls visit(model) for each GPU model of the node; once with 0 if models do not matter.
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

/// The models on which tasks of `request` may run, ascending.
std::vector<int> ModelsFor(const ClusterState& state, const ResourceRequest& request);
/// The GPU models of these placements, ascending.
std::vector<int> ModelsOf(const ClusterState& state, const std::vector<TaskPlacement>& placements);

}  // namespace divvy::core
