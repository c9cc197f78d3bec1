// Removes folders that belonged to users. Their contents may be large, nested as deep as a disk allows, and still
// growing.
#pragma once

#include <functional>
#include <string>

namespace divvy {

/// Removes `path` and its contents, as far as our rights allow. Takes ownership of each folder first, so that no other
/// user can add files to it from then on. Follows no links. Returns early once `is_stopped` returns true. Cost: two
/// descriptors, and time for each file.
void RemoveTree(const std::string& path, const std::function<bool()>& is_stopped);

}  // namespace divvy
