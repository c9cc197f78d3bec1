// Words in reasons and histories that are written in one place and looked for in another.
#pragma once

#include <string_view>

namespace divvy {

/// How the reason begins of a job that the limit of its memory ended.
inline constexpr std::string_view kOutOfMemory = "out of memory";
/// Of a run that had to be over by a time, and was ended.
inline constexpr std::string_view kReachedDeadline = "reached its deadline";
/// Of a job that left the queue for it.
inline constexpr std::string_view kTooLateForDeadline = "could not start in time to be over by its deadline";
/// How what is said of a job ends whose machine is lost.
inline constexpr std::string_view kMayGoOn = "the job may go on there";

}  // namespace divvy
