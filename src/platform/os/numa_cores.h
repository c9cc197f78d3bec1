// Which cores belong to which NUMA node, as the kernel reports it.
#pragma once

#include <vector>

namespace divvy {

/// Returns the cores of each NUMA node in ascending order, indexed by NUMA node. Empty if the kernel does not report
/// them.
std::vector<std::vector<int>> NumaNodeCores();

}  // namespace divvy
