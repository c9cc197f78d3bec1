// --private-tmp and --private-shm. Like container options they are stored as labels of the job, because only the job's
// node reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// Whether the job has a /tmp and a /dev/shm of its own. nullopt: as the node's divvy.toml says.
struct PrivateFolders {
  std::optional<bool> tmp;
  std::optional<bool> shm;
};

void AddPrivateFolderOptions(std::vector<Option>& table, JobSpec& spec);
PrivateFolders ReadPrivateFolders(const JobSpec& spec);
/// "private /tmp and /dev/shm", "private /tmp, shared /dev/shm"; empty if the job does not set them.
std::string PrivateFoldersReading(const JobSpec& spec);

}  // namespace divvy::dialect
