// Texts about the filters and node classes of a NodeClassIndex, for refusals, blockers and suggested changes.
#pragma once

#include <span>
#include <string>

#include "engine/core/explain/explanation.h"
#include "engine/core/state/node_class_index.h"

namespace divvy::core {

/// Describes the nodes that meet the conditions of one of the filters: "of type a100 or h100 with feature ib in pool
/// p"; "" if all nodes do.
std::string FilterText(const NodeClassIndex& class_index, std::span<const FilterIndex> filters);

/// Returns the first condition of the filter, other than a GPU model, that no node meets: "no node has features
/// ib&nvme", "there is no node n9"; "" if there is none.
std::string LackingText(const NodeClassIndex& class_index, FilterIndex filter);

/// Returns the command-line options that express the filter: "--gpu-type", "--gpu-type and --constraint". If a node
/// fails only one of these conditions, returns only its option. "" for a filter without conditions.
std::string FilterOptions(const NodeClassIndex& class_index, FilterIndex filter);

/// Returns the changed command-line options with which the filter would accept all nodes of class `node_class`:
/// "--gpu-type a100", "no --constraint", "--gpu-type a100 and no --exclude".
std::string InsteadOf(const NodeClassIndex& class_index, FilterIndex filter, int node_class);

/// Returns the memory of the largest GPU in MiB if the filter requests more than any GPU has; otherwise 0.
std::int32_t LargestMemory(const NodeClassIndex& class_index, FilterIndex filter);

/// Returns the GPU models of these node classes: "of type a100 or h100".
std::string ModelsText(const NodeClassIndex& class_index, placement::ModelSet node_classes);

/// Returns functions that describe the nodes of `class_index`, for explanations. Requires: `class_index` outlives the
/// result.
Names NamesOf(const NodeClassIndex& class_index);

}  // namespace divvy::core
