// Characters of UTF-8 texts.
#pragma once

#include <cstdint>
#include <optional>
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

/// A terminal, or a reader, may take it for more than a character to show: controls (C0, DEL, C1), separators of lines
/// and of paragraphs, and what changes the direction of the text around it.
bool IsControl(std::uint32_t code);
/// A control character as it can be shown: "\n", "\t", "\x1b", "\u202e".
std::string ControlText(std::uint32_t code);
/// `text` with its control characters as they can be shown.
std::string WithoutControls(std::string_view text);
/// The first control character of `text` as it can be shown; nothing if there is none.
std::optional<std::string> FirstControl(std::string_view text);

}  // namespace divvy
