// How many terminal columns a text takes, and how much of it fits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace divvy::cli {

/// Terminal columns of a text: two for Chinese, Japanese and Korean characters and for emoji, none for combining
/// accents.
std::size_t Width(std::string_view text);
/// True if the caller's locale (LC_ALL, LC_CTYPE, LANG) has only ASCII. Then no block characters and no "…" are used.
bool IsAsciiLocale();
/// Cuts `text` to at most `width` columns, the last one an ellipsis (">" in ASCII). The result has one column fewer if
/// a character of two columns would cross the limit. Requires: width > 0.
std::string Cut(std::string_view text, std::size_t width, bool is_ascii = IsAsciiLocale());
/// The leading characters that fit completely into `width` columns.
std::string_view Beginning(std::string_view text, std::size_t width);
/// Returns `text` in exactly `width` columns: cut, or padded with blanks after the text (before it if `is_right`).
std::string Fitted(std::string_view text, std::size_t width, bool is_right = false, bool is_ascii = IsAsciiLocale());

}  // namespace divvy::cli
