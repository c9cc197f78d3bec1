// Characters of UTF-8 texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace divvy {

/// `code` as UTF-8; "" if it is no character.
std::string Utf8(std::uint32_t code);

struct Utf8Character {
  std::uint32_t code = 0;  // U+FFFD for a byte that begins no character.
  std::size_t length = 0;  // Bytes of it.
};
/// The first of `text`. Requires: it is not empty.
Utf8Character FirstCharacter(std::string_view text);

}  // namespace divvy
