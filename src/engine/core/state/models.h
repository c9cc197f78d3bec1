// Tasks of one job run on GPUs of one model. Most nodes have one model. On mixed nodes each GPU counts by its own
// model, so such a node offers one place per model.
#pragma once

#include <optional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Returns true if all tasks of the job must run on the same GPU model. A job of one task may use any GPUs that it
/// accepts.
inline bool RunsOnOneModel(const ResourceRequest& request) {
  return !request.mixes_models && !IsHeterogeneous(request) && WantsGpu(request) &&
         (LeastTasks(request) > 1 || request.groups.size() > 1);
}

inline int ModelOf(const NodeFacts& facts, int gpu) {
  return facts.gpu_models.empty() ? facts.gpu_model : facts.gpu_models[static_cast<std::size_t>(gpu)];
}
bool HasModel(const NodeFacts& facts, int model);

/// Returns the GPUs of the node that a task of `shape` does not accept. Not empty only for nodes with different GPUs.
GpuSet NotAccepted(const NodeFacts& facts, const Shape& shape);
/// Returns the GPUs of the node whose model is not `model`.
GpuSet NotOfModel(const NodeFacts& facts, int model);

/// Returns `state` of a node with these facts, without the GPUs that a task of `shape` does not accept or whose model
/// is not `model` (if given). Unchanged for a task without GPUs.
NodeState SeenBy(const NodeFacts& facts, const NodeState& state, const Shape& shape, std::optional<int> model = {});

/// Calls visit(model) for each GPU model of the node. If `matters` is false, calls it once with 0.
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

/// Returns the numbers of the GPU models on which tasks of `request` may run, ascending.
std::vector<int> ModelsFor(const ClusterState& state, const ResourceRequest& request);
/// Returns the numbers of the GPU models that these placements use, ascending.
std::vector<int> ModelsOf(const ClusterState& state, const std::vector<TaskPlacement>& placements);

}  // namespace divvy::core
