// Which cores are near which memory, as the kernel tells it.
#pragma once

#include <vector>

namespace divvy {

/// The cores of each NUMA node, by node, ascending; empty where the kernel does not tell.
std::vector<std::vector<int>> NumaNodeCores();

}  // namespace divvy
