// Removes folders that were users': what is in them may be much, as deep as a disk can hold, and grow meanwhile.
#pragma once

#include <functional>
#include <string>

namespace divvy {

/// Removes `path` with all that is in it, as far as we may. Each folder is taken from its owner first, so that nobody
/// else puts anything into it from then on. Follows no link. Ends early where `is_stopped` says so. Cost: two
/// descriptors, and time for each file.
void RemoveTree(const std::string& path, const std::function<bool()>& is_stopped);

}  // namespace divvy
