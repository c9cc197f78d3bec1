// Validates a job specification before the daemon accepts it. The daemon never relies on checks in the client.
#pragma once

#include <string>

#include "base/result.h"
#include "model/job.h"

namespace divvy {

/// The limit on a job's environment in bytes, including the terminator of each variable.
inline constexpr std::size_t kMostEnvironmentBytes = 1u << 20;

/// Fails with kInvalidArgument, naming the option or field to change.
Status CheckSpec(const JobSpec& spec);
/// Returns the default name of a job: the name of its program.
std::string DefaultName(const JobSpec& spec);

}  // namespace divvy
