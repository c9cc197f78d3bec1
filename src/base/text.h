// Small text helpers for all layers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace divvy {

/// The parts of `text` between separators, empty ones included; "" gives one empty part.
std::vector<std::string_view> Split(std::string_view text, char separator);
/// The words of `text` between runs of spaces and tabs.
std::vector<std::string_view> SplitWords(std::string_view text);
std::string_view Trim(std::string_view text);
std::string Join(std::span<const std::string> parts, std::string_view separator);
std::string ToLower(std::string_view text);
/// Returns untrusted text as one line: every control character becomes a space.
std::string OneLine(std::string text);
bool EqualsIgnoringCase(std::string_view a, std::string_view b);

/// Parses decimal digits with an optional sign. Returns std::nullopt for any other text, and on overflow.
std::optional<std::int64_t> ParseInteger(std::string_view text);
/// Parses a plain decimal number such as 0.25 or 1e-3. Returns std::nullopt for any other text, "inf" and "nan"
/// included.
std::optional<double> ParseNumber(std::string_view text);

/// The candidate with the smallest edit distance to `text`, if it is close enough to be the intended one (at most about
/// a third of the letters differ); else "".
std::string_view Nearest(std::string_view text, std::span<const std::string_view> candidates);

/// `text` as one word of a POSIX shell: unchanged if safe, else in single quotes.
std::string ShellQuote(std::string_view text);

/// Splits text into words like POSIX sh: handles quotes and backslashes, expands nothing. Returns nothing on an open
/// quote.
std::optional<std::vector<std::string>> ShellSplit(std::string_view text);

/// "1 GPU", "3 GPUs": the count and the noun, with an s unless the count is 1.
std::string Plural(std::int64_t count, std::string_view noun);

}  // namespace divvy
