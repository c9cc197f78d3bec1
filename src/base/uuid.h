// Random UUIDs of drawn bytes (RFC 9562, version 4).
#pragma once

#include <string>
#include <string_view>

namespace divvy {

/// Of 32 hexadecimal digits; what version and variant say is put in their place.
inline std::string UuidOfRandom(std::string_view digits) {
  constexpr std::size_t kVersion = 12, kVariant = 16;
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i == 8 || i == kVersion || i == kVariant || i == 20) out += '-';
    const char digit = digits[i];
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    if (i == kVersion) out += '4';
    else if (i == kVariant) out += "89ab"[value & 3];
    else out += digit;
  }
  return out;
}

}  // namespace divvy
