// What Slurm says where divvy refuses a job for its pool: programs look for these words.
#pragma once

#include <string>

namespace divvy::cli::slurm {

/// "User's group not permitted to use this partition: pool big is for ..."; any other text as it is.
std::string InSlurmsWords(const std::string& refusal);

}  // namespace divvy::cli::slurm
