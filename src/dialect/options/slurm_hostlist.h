// Slurm's host lists: "n[1-3,5],login" stands for five names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::dialect {

/// Splits a host list at commas and spaces outside brackets: "n[1-3,5], login" has two entries. Refuses unbalanced
/// brackets.
Result<std::vector<std::string_view>> SplitHostList(std::string_view text);

/// Returns the names that `text` stands for, in order. Keeps leading zeros ("a[08-11]"). Several brackets in a name
/// give all combinations. Refuses more than 65,536 names, and unbalanced brackets.
Result<std::vector<std::string>> ExpandHostList(std::string_view text);

/// Returns a short host list that expands to `names` in the same order. Adjacent names that differ only in their last
/// number share a bracket.
std::string FoldHostList(const std::vector<std::string>& names);

}  // namespace divvy::dialect
