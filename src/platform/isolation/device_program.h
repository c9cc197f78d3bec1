// Denies device files to a cgroup v2 with a program of type BPF_PROG_TYPE_CGROUP_DEVICE. The kernel runs it at every
// open and mknod by a process of the cgroup. Denied calls fail with EPERM and are counted. The program matches device
// numbers, not paths, so no other name of a device bypasses it.
//
// The program is assembled here and loaded with bpf(2). It is a list of comparisons, for which a compiler, embedded
// object code and a loader library would be too much machinery. Needs root (CAP_BPF and CAP_NET_ADMIN) and Linux 5.11
// or newer (older kernels charge the program to RLIMIT_MEMLOCK).
//
// The program and its counter exist as long as the cgroup; no process holds them open. A device that a process opened
// before it joined the cgroup stays open.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

struct DeviceNumber {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;

  friend bool operator==(const DeviceNumber&, const DeviceNumber&) = default;
};

/// Returns the numbers of those `files` that are character devices; skips the others.
std::vector<DeviceNumber> DeviceNumbers(std::span<const std::string> files);

/// Denies the `closed` devices in `cgroup`, the directory of a cgroup v2. Call it once per cgroup. On kInternal the
/// error names the step and the system's reason.
Status CloseDevices(const std::string& cgroup, std::span<const DeviceNumber> closed);

/// Returns how often a process of the cgroup was denied a device since CloseDevices(). Returns nullopt if
/// CloseDevices() was not called, or if this process lacks the rights to read the number.
std::optional<std::int64_t> RefusedOpens(const std::string& cgroup);

}  // namespace divvy
