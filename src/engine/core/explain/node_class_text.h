// Texts about the filters and node classes of a NodeClassIndex, for refusals, blockers and suggested changes.
#pragma once

#include <span>
#include <string>

#include "engine/core/explain/explanation.h"
#include "engine/core/state/node_class_index.h"

namespace divvy::core {

/// Describes the nodes that pass one of the filters: "of type a100 or h100 with feature ib in pool p"; "" if all do.
std::string FilterText(const NodeClassIndex& class_index, std::span<const FilterIndex> filters);

/// The first condition of the filter, other than a model, that no node meets: "no node has features ib&nvme", "there is
/// no node n9"; "" if there is none.
std::string LackingText(const NodeClassIndex& class_index, FilterIndex filter);

/// The options that express the filter: "--gpu-type", "--gpu-type and --constraint". If some node fails only one of
/// them, only that option. "" for a filter without conditions.
std::string FilterOptions(const NodeClassIndex& class_index, FilterIndex filter);

/// The changed options with which all nodes of class `node_class` would pass: "--gpu-type a100", "no --constraint",
/// "--gpu-type a100 and no --exclude".
std::string InsteadOf(const NodeClassIndex& class_index, FilterIndex filter, int node_class);

/// The memory of the largest GPU in MiB if the filter requests more than any GPU has; otherwise 0.
std::int32_t LargestMemory(const NodeClassIndex& class_index, FilterIndex filter);

/// "of type a100 or h100": the models of these classes.
std::string ModelsText(const NodeClassIndex& class_index, placement::ModelSet node_classes);

/// The texts about the nodes of `class_index` for explanations. Requires: `class_index` outlives the result.
Names NamesOf(const NodeClassIndex& class_index);

}  // namespace divvy::core
