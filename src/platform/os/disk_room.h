// Whether the disks on which jobs leave their output have room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace divvy {

/// What is left on a file system for its users.
struct DiskRoom {
  std::int64_t bytes = 0;
  std::int64_t files = -1;  // -1: it makes places for files as they are needed.
};

/// "its disk is full: 812 KiB are free under /var/lib/divvy/logs"; empty: it has room. `was_full`: it was, the last
/// time; that is over when there is twice the room that makes a disk count as full, so that the answer does not change
/// with every line that a job writes.
std::string Fullness(const DiskRoom& room, const std::string& folder, bool was_full);

/// Of the first of these folders whose file system is full. One that cannot be looked at, or counts no blocks, says
/// nothing. May take as long as a network file system takes.
std::string FullDisk(const std::vector<std::string>& folders, bool was_full);

}  // namespace divvy
