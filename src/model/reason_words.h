// Words in reasons and histories that are written in one place and looked for in another.
#pragma once

#include <string_view>

namespace divvy {

/// How the reason begins of a job that the limit of its memory ended.
inline constexpr std::string_view kOutOfMemory = "out of memory";
/// How what is said of a job ends whose machine is lost.
inline constexpr std::string_view kMayGoOn = "the job may go on there";

}  // namespace divvy
