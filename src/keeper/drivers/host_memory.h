// Host memory available for parked and moving tenants. Limits come from the machine and from a process's cgroups, so
// that no process is killed by the kernel's OOM killer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"

namespace divvy::keeper {

class HostMemory {
 public:
  /// `proc`, `cgroups`: the folders with the kernel's files about memory; tests give others.
  explicit HostMemory(std::string proc = "/proc", std::string cgroups = "/sys/fs/cgroup")
      : proc_(std::move(proc)), cgroups_(std::move(cgroups)) {}

  /// Returns how much host memory may still be used: the available memory minus a reserve of one tenth of the total.
  /// std::nullopt if unknown.
  std::optional<Bytes> Room() const;
  /// Returns how much more host memory the process may use by the limits of its cgroups: the smallest free amount of
  /// any up to the root (cgroups v2, and the v1 memory controller). Inactive file cache does not count as used.
  /// std::nullopt if none has a limit.
  std::optional<Bytes> RoomOf(std::int64_t pid) const;

 private:
  std::string proc_;
  std::string cgroups_;
};

}  // namespace divvy::keeper
