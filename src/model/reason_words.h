// Phrases in reasons and histories that one component writes and another one searches for.
#pragma once

#include <string_view>

namespace divvy {

/// Start of the reason of a job that was killed by its memory limit.
inline constexpr std::string_view kOutOfMemory = "out of memory";
/// The reason of a run that reached its deadline and was ended.
inline constexpr std::string_view kReachedDeadline = "reached its deadline";
/// The reason of a job that left the queue because of its deadline.
inline constexpr std::string_view kTooLateForDeadline = "could not start in time to be over by its deadline";
/// End of the reason of a job that may still run on its node, which does not answer any more.
inline constexpr std::string_view kMayGoOn = "the job may go on there";

}  // namespace divvy
