// How many columns of a terminal a text takes, and what of it fits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace divvy::cli {

/// Columns on a terminal that a text takes: two for characters of Chinese, Japanese and Korean and for emoji, none for
/// accents that stand on the character before.
std::size_t Width(std::string_view text);
/// The caller's locale (LC_ALL, LC_CTYPE, LANG) has no more than ASCII: nothing is drawn with blocks or cut with "…".
bool IsAsciiLocale();
/// At most its first `width` columns, the last of them an ellipsis (in ASCII ">"): one fewer where a wide character
/// would reach over the end. Requires: width > 0.
std::string Cut(std::string_view text, std::size_t width, bool is_ascii = IsAsciiLocale());
/// The characters that its first `width` columns hold whole.
std::string_view Beginning(std::string_view text, std::size_t width);
/// Exactly `width` columns: cut, or filled up with blanks behind (`is_right`: before) it.
std::string Fitted(std::string_view text, std::size_t width, bool is_right = false, bool is_ascii = IsAsciiLocale());

}  // namespace divvy::cli
