// What a machine is, as its own agent (or daemon) found it: learned, never configured, and told anew at each
// connection.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/gpus/gpu.h"

namespace divvy {

struct MachineFacts {
  std::string hostname;
  std::string boot_id;        // Another one after every boot.
  std::string agent_version;  // "0.1.0"
  std::string gpu_source;     // "NVML (driver 565.57.01)", "emulated: 4xH100-80GB", "none: ...".
  std::vector<GpuFacts> gpus;
  int cpus = 0;
  Bytes memory;
  /// "arch" -> "x86_64", "os" -> "debian-12", "kernel" -> "6.1.0", and what the agent was started with. "rack" and
  /// "block" say where in the network it stands.
  std::map<std::string, std::string> labels;
  std::string logs;  // Where its agent keeps what jobs print, absolute; empty: the controller's own, or not told.

  friend bool operator==(const MachineFacts&, const MachineFacts&) = default;
};

}  // namespace divvy
