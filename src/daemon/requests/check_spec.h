// What the daemon asks of a specification before it takes it, whoever sent it: a client may be of any make.
#pragma once

#include <string>

#include "base/result.h"
#include "model/job.h"

namespace divvy {

/// A job's environment, in bytes, the end of each variable counted.
inline constexpr std::size_t kMostEnvironmentBytes = 1u << 20;

/// Fails with kInvalidArgument and the option or field to change.
Status CheckSpec(const JobSpec& spec);
/// The name of a job that was given none: that of its program.
std::string DefaultName(const JobSpec& spec);

}  // namespace divvy
