// Slurm's aftercorr: each element of an array waits for the element with the same index in another array.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/job.h"

namespace divvy {

/// As Dependency::element: the element of `job` with the index of the element that waits. An element without such a
/// counterpart, and a job that is not an array, wait for the whole of `job`.
inline constexpr std::uint32_t kSameElement = std::numeric_limits<std::uint32_t>::max();

/// The most dependencies of one job. Jobs with a thousand exist; more is a mistake. Each one is checked when a parent
/// ends.
inline constexpr std::size_t kMostDependencies = 1000;

inline bool WaitsForSameElement(const std::vector<Dependency>& dependencies) {
  return std::ranges::any_of(dependencies, [](const Dependency& one) { return one.element == kSameElement; });
}

}  // namespace divvy
