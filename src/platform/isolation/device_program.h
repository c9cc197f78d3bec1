// Closing device files to a cgroup v2: a program of type BPF_PROG_TYPE_CGROUP_DEVICE that the kernel asks at every open
// and mknod by a process of the cgroup. Refused ones get EPERM and are counted. By number, not by path: no other name
// of the device, made before or after, opens it.
//
// Assembled here by hand and loaded with bpf(2): it is a row of comparisons, for which a compiler, its output in our
// binary and a loader library would be much machinery. Needs root (CAP_BPF and CAP_NET_ADMIN) and Linux 5.11 or newer
// (older ones count the program against RLIMIT_MEMLOCK).
//
// Program and counter live with the cgroup and go with it; nobody holds them open. A device that was opened before the
// process came into the cgroup stays open.
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

/// Of those of `files` that are character devices; the others are left out.
std::vector<DeviceNumber> DeviceNumbers(std::span<const std::string> files);

/// `cgroup`: the directory of a cgroup v2. To be called once for each. kInternal names the step and the system's
/// reason.
Status CloseDevices(const std::string& cgroup, std::span<const DeviceNumber> closed);

/// How often a process of the cgroup was refused since CloseDevices(); nothing where that was not called, or without
/// its rights.
std::optional<std::int64_t> RefusedOpens(const std::string& cgroup);

}  // namespace divvy
