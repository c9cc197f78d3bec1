// Base64, as RFC 4648 defines it, with padding.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

std::string Base64(std::string_view bytes);

}  // namespace divvy
