// Base64, as RFC 4648 defines it, with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace divvy {

std::string Base64(std::string_view bytes);
/// Returns the bytes that the text encodes; nullopt if it is not base64 with padding, without blanks and line feeds.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace divvy
