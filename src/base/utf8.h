// Characters of UTF-8 text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace divvy {

/// `code` as UTF-8; "" if it is not a character.
std::string Utf8(std::uint32_t code);

struct Utf8Character {
  std::uint32_t code = 0;  // U+FFFD for a byte that starts no valid character.
  std::size_t length = 0;  // Its length in bytes.
};
/// The first character of `text`. Requires: `text` is not empty.
Utf8Character FirstCharacter(std::string_view text);

/// Returns true if this character may do something other than appear as a character: controls (C0, DEL, C1), line and
/// paragraph separators, and characters that change the direction of the surrounding text.
bool IsControl(std::uint32_t code);
/// A control character in visible form: "\n", "\t", "\x1b", "\u202e".
std::string ControlText(std::uint32_t code);
/// `text` with its control characters in visible form.
std::string WithoutControls(std::string_view text);
/// The first control character of `text` in visible form. Nothing if there is none.
std::optional<std::string> FirstControl(std::string_view text);

}  // namespace divvy
