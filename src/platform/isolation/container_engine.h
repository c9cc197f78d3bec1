// Which container engine a machine has, and what it says of the machine's GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy {

/// podman, docker, apptainer or singularity.
struct FoundEngine {
  std::string name;
  std::string path;  // Absolute.
};

/// `wanted`: one of the four, the absolute path of one (.../podman), or "auto": the first of them that is in `path` (a
/// PATH); docker only where its service can be reached (`docker_host`: DOCKER_HOST; empty: its usual socket). kNotFound
/// says what to install.
Result<FoundEngine> FindContainerEngine(std::string_view wanted, std::string_view path, std::string_view docker_host);

/// The machine's CDI descriptions (https://github.com/cncf-tags/container-device-interface): all of /etc/cdi and
/// /var/run/cdi. At most 16 MiB of them.
std::vector<std::string> ReadCdiDescriptions();

/// The whole of a small file that may be a stranger's: a regular one, at most `most` bytes, never waiting. Empty when
/// it cannot be read.
std::string ReadContainerFile(const std::string& path, std::size_t most);

}  // namespace divvy
