// Checks whether the disks to which jobs write their output have free space.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace divvy {

/// The free space on a file system that is available to users.
struct DiskRoom {
  std::int64_t bytes = 0;
  std::int64_t files = -1;  // Free inodes. -1: the file system creates inodes as needed.
};

/// Returns a message such as "its disk is full: 812 KiB free under /var/lib/divvy/logs", or an empty string if
/// there is room. `was_full` is the last answer: a full disk needs twice the minimum to count as free again, so that
/// the answer does not change with every line that a job writes.
std::string Fullness(const DiskRoom& room, const std::string& folder, bool was_full);

/// Returns the message for the first of these folders whose file system is full, or an empty string. Skips a folder
/// that cannot be examined and a file system that counts no blocks. May take as long as a network file system takes.
std::string FullDisk(const std::vector<std::string>& folders, bool was_full);

}  // namespace divvy
