// The host's memory, which takes what tenants bring there when they park and while they move: what of it may still be
// taken, by the machine and by the cgroups of a process, so that nobody meets the kernel's killer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"

namespace divvy::keeper {

class HostMemory {
 public:
  /// Where the kernel shows it; others for tests.
  explicit HostMemory(std::string proc = "/proc", std::string cgroups = "/sys/fs/cgroup")
      : proc_(std::move(proc)), cgroups_(std::move(cgroups)) {}

  /// Of the machine: what is available less a tenth of all, which stays for others. Nothing: it is not known.
  std::optional<Bytes> Room() const;
  /// Of the cgroups that the process is in (v2, and the memory controller of v1), up to the root: the least that one of
  /// them leaves, its files in the cache not counted. Nothing: none of them has a limit.
  std::optional<Bytes> RoomOf(std::int64_t pid) const;

 private:
  std::string proc_;
  std::string cgroups_;
};

}  // namespace divvy::keeper
