// Validates a job specification before the daemon accepts it. The daemon never relies on checks in the client.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/job.h"

namespace divvy {

/// The limit on a job's environment in bytes, including the terminator of each variable.
inline constexpr std::size_t kMostEnvironmentBytes = 1u << 20;

/// Programs of at most this many bytes do not count towards the limit on the programs of a user's live jobs.
inline constexpr std::uint64_t kSmallProgramBytes = 16 << 10;
/// Returns the bytes of a job's script, command, arguments and parameters, and of its environment above 64 KiB. Smaller
/// environments are usually stored once for many jobs.
std::uint64_t ProgramBytes(const JobSpec& spec);

/// Fails with kInvalidArgument, naming the option or field to change.
Status CheckSpec(const JobSpec& spec);
/// Returns the default name of a job: the name of its program.
std::string DefaultName(const JobSpec& spec);

}  // namespace divvy
