// Finds the machine's container engine and the CDI descriptions of its GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy {

/// A container engine that was found on this machine: podman, docker, apptainer or singularity.
struct FoundEngine {
  std::string name;
  std::string path;  // Absolute.
};

/// Finds the container engine to use. `wanted` is "podman", "docker", "apptainer" or "singularity", the absolute path
/// of one of them (.../podman), or "auto": the first of them that is found in `path` (a PATH). "auto" takes docker only
/// if its service can be reached at `docker_host` (DOCKER_HOST; empty: its usual socket). On kNotFound the error says
/// what to install.
Result<FoundEngine> FindContainerEngine(std::string_view wanted, std::string_view path, std::string_view docker_host);

/// Returns the machine's CDI descriptions (https://github.com/cncf-tags/container-device-interface): all of /etc/cdi
/// and /var/run/cdi, at most 16 MiB.
std::vector<std::string> ReadCdiDescriptions();

/// Reads the first `most` bytes of a file that may belong to another user. It must be a regular file; never blocks.
/// Returns "" if it cannot be read.
std::string ReadContainerFile(const std::string& path, std::size_t most);

}  // namespace divvy
