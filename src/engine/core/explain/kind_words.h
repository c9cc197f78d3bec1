// Texts about the filters and node classes of a NodeClassIndex, for refusals, blockers and suggested changes.
#pragma once

#include <span>
#include <string>

#include "engine/core/explain/explanation.h"
#include "engine/core/state/node_class_index.h"

namespace divvy::core {

/// Describes the nodes that pass one of the filters: "of type a100 or h100 with feature ib in pool p"; "" if all do.
std::string FilterWords(const NodeClassIndex& book, std::span<const FilterIndex> filters);

/// The first condition of the filter, other than a model, that no node meets: "no node has features ib&nvme", "there is
/// no node n9"; "" if there is none.
std::string LackingWords(const NodeClassIndex& book, FilterIndex filter);

/// The options that express the filter: "--gpu-type", "--gpu-type and --constraint". If some node fails only one of
/// them, only that option. "" for a filter without conditions.
std::string FilterOptions(const NodeClassIndex& book, FilterIndex filter);

/// The changed options with which all nodes of `kind` would pass: "--gpu-type a100", "no --constraint", "--gpu-type
/// a100 and no --exclude".
std::string InsteadOf(const NodeClassIndex& book, FilterIndex filter, int kind);

/// The memory of the largest GPU in MiB if the filter requests more than any GPU has; otherwise 0.
std::int32_t LargestMemory(const NodeClassIndex& book, FilterIndex filter);

/// "of type a100 or h100": the models of these kinds.
std::string KindsWords(const NodeClassIndex& book, placement::ModelSet kinds);

/// The texts about the nodes of `book` for explanations. Requires: `book` outlives the result.
Names NamesOf(const NodeClassIndex& book);

}  // namespace divvy::core
