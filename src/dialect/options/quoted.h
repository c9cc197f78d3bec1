// Quotes a user's text for an error message: on one line, and cut if it is long.
#pragma once

#include <string>
#include <string_view>

namespace divvy::dialect {

inline std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < ' ' || byte == 127 ? '?' : c;
  }
  if (text.size() > kLongest) out += "...";
  return out + "'";
}

}  // namespace divvy::dialect
