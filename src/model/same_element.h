// Slurm's aftercorr: each element of an array waits for the element with the same index in another array.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/job.h"

namespace divvy {

/// As Dependency::element: the element of `job` with the index of the element that waits. An element without such a
/// counterpart, and a job that is not an array, wait for the whole of `job`.
inline constexpr std::uint32_t kSameElement = std::numeric_limits<std::uint32_t>::max();

inline bool WaitsForSameElement(const std::vector<Dependency>& dependencies) {
  return std::ranges::any_of(dependencies, [](const Dependency& one) { return one.element == kSameElement; });
}

}  // namespace divvy
