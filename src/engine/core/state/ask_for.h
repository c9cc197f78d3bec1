// What a job says of its nodes, made into an ask: filters in use, alternatives, and a group of tasks for each count.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/core/state/ask.h"
#include "engine/core/state/kind_book.h"

namespace divvy::core {

/// GPUs on which a job is equally fast.
struct AtSpeed {
  std::string gpu_type;                                       // engine/gpu_type.h
  std::int16_t speed = 1000;                                  // In thousandths of the fastest.
  std::int16_t parts = 0;                                     // What a task takes of each such GPU; 0: as it asks.
  std::optional<placement::MigProfile> slice = std::nullopt;  // The MIG instance that a task takes of such a GPU.
};

/// Nodes of this pool, and such of them.
struct PoolWish {
  std::string pool;
  FeatureCondition features;
  std::int32_t cpu_milli = 0;  // What a task takes of CPUs there; 0: as it asks.
};

/// What all tasks of a job want of their nodes.
struct NodeWishes {
  std::string gpu_type;  // engine/gpu_type.h; with speeds ("h100*1.0|a100*0.55") the fastest first.
  /// In place of what `gpu_type` says of speeds, the fastest first. Empty: as that says.
  std::vector<AtSpeed> speeds;
  std::int32_t least_gpu_memory_mib = 0;
  int least_compute_capability = 0;
  FeatureWish features;               // Counts are of tasks: each is what the job has of one node.
  std::vector<std::string> nodes;     // One of these.
  std::vector<std::string> excluded;  // None of these.
  std::string pool;
  /// In place of `pool`: all nodes are of the same one of these, the first is liked best. Empty: as `pool` says.
  std::vector<PoolWish> pools;
};

/// `ask`, whose groups have one alternative each, on such nodes alone. Every filter of the answer is in use
/// (KindBook::Use) until LeaveFilters; what is refused uses none. Tasks without GPUs do not mind what GPUs a node has.
/// Refuses counts of more nodes than the job has tasks, or of a job that has several groups or grows; and what
/// KindBook::Use refuses.
Result<Ask> AskFor(KindBook& book, Ask ask, const NodeWishes& wishes);
void LeaveFilters(KindBook& book, const Ask& ask);

}  // namespace divvy::core
