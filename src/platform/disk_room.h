// Whether the disks on which jobs leave their output have room.
#pragma once

#include <string>
#include <vector>

namespace divvy {

/// The first of these folders whose file system is full for its users, in words: "its disk is full: 812 KiB are free
/// under /var/lib/divvy/logs". Empty: none is. `was_full`: the last look found one; it is over when there is twice the
/// room that makes a disk count as full, so that the answer does not change with every line that a job writes.
std::string FullDisk(const std::vector<std::string>& folders, bool was_full);

}  // namespace divvy
