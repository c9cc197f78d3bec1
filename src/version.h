// The only definition of the version; CMakeLists.txt and packaging read it from here.
#pragma once

#include <string_view>

namespace divvy {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace divvy
