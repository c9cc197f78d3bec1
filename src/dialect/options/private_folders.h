// --private-tmp and --private-shm. Like the options of containers they are labels of the job: the machine where it runs
// reads them, and nobody else does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// Nothing: as the machine's divvy.toml has it.
struct PrivateFolders {
  std::optional<bool> tmp;
  std::optional<bool> shm;
};

void AddPrivateFolderOptions(std::vector<Option>& table, JobSpec& spec);
PrivateFolders ReadPrivateFolders(const JobSpec& spec);
/// "a /tmp and a /dev/shm of its own"; empty where the job does not say.
std::string PrivateFoldersReading(const JobSpec& spec);

}  // namespace divvy::dialect
