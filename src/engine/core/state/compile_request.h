// Turns a job's node requirements into a ResourceRequest: filters in use, alternatives, and one task group per node
// count.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/core/state/node_class_index.h"
#include "engine/core/state/resource_request.h"

namespace divvy::core {

/// GPUs on which a job is equally fast, and its speed there.
struct AtSpeed {
  std::string gpu_type;                                       // engine/gpu_type.h
  std::int16_t speed = 1000;                                  // In thousandths of the fastest.
  std::int16_t parts = 0;                                     // Parts per GPU that a task takes there; 0: as in its
                                                              // request.
  std::optional<placement::MigProfile> slice = std::nullopt;  // The MIG instance that a task takes there.
};

/// Nodes of this pool that have these features.
struct PoolWish {
  std::string pool;
  FeatureCondition features;
  std::int32_t cpu_milli = 0;  // CPUs of a task there; 0: as in its request.
};

/// Node requirements that all tasks of a job share.
struct NodeWishes {
  std::string gpu_type;  // engine/gpu_type.h; may contain speeds ("h100*1.0|a100*0.55").
  /// Overrides the speeds of `gpu_type`, fastest first. Empty: `gpu_type` applies.
  std::vector<AtSpeed> speeds;
  std::int32_t least_gpu_memory_mib = 0;
  int least_compute_capability = 0;
  FeatureWish features;               // Counts are of tasks, where a task is the job's allocation on one node.
  std::vector<std::string> nodes;     // Allowed nodes; empty: all.
  std::vector<std::string> excluded;  // Excluded nodes.
  std::string pool;
  /// Overrides `pool`: all nodes belong to one of these, the first is preferred. Empty: `pool` applies.
  std::vector<PoolWish> pools;
};

/// Restricts `request` to nodes that meet `wishes`. Requires: each task group has exactly one alternative. Tasks
/// without GPUs ignore the conditions about GPUs. Fails if NodeClassIndex::Use fails, or if a group would get more than
/// 255 alternatives. If `wishes` count the nodes that need a feature (FeatureWish::counted), also fails if the job is
/// elastic, has several task groups, or has fewer tasks than nodes are counted. The filters of the result count as used
/// until NodeClassIndex::Leave; a failed call leaves none in use.
Result<ResourceRequest> CompileRequest(NodeClassIndex& class_index, ResourceRequest request, const NodeWishes& wishes);

}  // namespace divvy::core
