// What a KindBook knows, in words: for refusals, for why somebody waits, and for what to ask for instead.
#pragma once

#include <span>
#include <string>

#include "engine/core/explain/explain.h"
#include "engine/core/state/kind_book.h"

namespace divvy::core {

/// What passes one of these: "of type a100 or h100 with feature ib in pool p". "" where everything does.
std::string FilterWords(const KindBook& book, std::span<const FilterIndex> filters);

/// The first thing in it, other than a model, that no node has: "no node has features ib&nvme", "there is no node n9".
/// "" where there is no such thing.
std::string LackingWords(const KindBook& book, FilterIndex filter);

/// The options that say it: "--gpu-type", "--gpu-type and --constraint"; where some node lacks nothing but one of them,
/// that one. "" of one that asks nothing.
std::string FilterOptions(const KindBook& book, FilterIndex filter);

/// With what else said, all nodes of `kind` pass: "--gpu-type a100", "no --constraint", "--gpu-type a100 and no
/// --exclude".
std::string InsteadOf(const KindBook& book, FilterIndex filter, int kind);

/// The memory of the largest GPU in MiB, where the filter asks for more than any GPU has; else 0.
std::int32_t LargestMemory(const KindBook& book, FilterIndex filter);

/// "of type a100 or h100": the models of these kinds.
std::string KindsWords(const KindBook& book, placement::ModelSet kinds);

/// How explanations speak of the nodes of this book. Requires: `book` outlives it.
Names NamesOf(const KindBook& book);

}  // namespace divvy::core
