// The properties of a node, as its agent (or the daemon) discovered them. They are never configured, and are sent at
// each connection.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "model/gpus/gpu.h"

namespace divvy {

struct MachineFacts {
  std::string hostname;
  std::string boot_id;        // Different after every boot.
  std::string agent_version;  // "0.1.0"
  std::string gpu_source;     // "NVML (driver 565.57.01)", "emulated: 4xH100-80GB", or why there are none.
  std::vector<GpuFacts> gpus;
  int cpus = 0;
  Bytes memory;
  /// "arch" -> "x86_64", "os" -> "debian-12", "kernel" -> "6.1.0", and the labels that the agent was started with.
  /// "rack" and "block" give its position in the network.
  std::map<std::string, std::string> labels;
  std::string logs;  // Absolute path where its agent stores job output. Empty: the controller's own node, or not
                     // reported.

  friend bool operator==(const MachineFacts&, const MachineFacts&) = default;
};

/// Returns whether a node with this MachineFacts::gpu_source has emulated GPUs.
inline bool IsEmulated(std::string_view gpu_source) { return gpu_source.starts_with("emulated: "); }

}  // namespace divvy
