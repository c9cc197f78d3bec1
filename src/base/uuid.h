// Random UUIDs (RFC 9562, version 4) from given random digits.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

/// Builds a UUID from 32 hexadecimal digits. Overwrites the digits of version and variant.
inline std::string UuidOfRandom(std::string_view digits) {
  constexpr std::size_t kVersionDigit = 12, kVariantDigit = 16;
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i == 8 || i == kVersionDigit || i == kVariantDigit || i == 20) out += '-';
    const char digit = digits[i];
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    if (i == kVersionDigit) out += '4';
    else if (i == kVariantDigit) out += "89ab"[value & 3];
    else out += digit;
  }
  return out;
}

}  // namespace divvy
