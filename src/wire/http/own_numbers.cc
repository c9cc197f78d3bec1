#include "wire/http/own_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"
#include "wire/json/json.h"

namespace divvy::wire {

bool IsOwnName(std::string_view name) {
  return !name.empty() && name.size() <= kMostOwnName &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
}

bool IsOwnNumber(double value) { return std::abs(value) <= kGreatestOwnNumber; }

void KeepNewest(OwnNumbers& numbers, std::string_view name, double value) {
  const auto at = std::ranges::find(numbers, name, &OwnNumbers::value_type::first);
  if (at != numbers.end()) at->second = value;
  else numbers.emplace_back(name, value);
}

namespace {

struct Token {
  std::size_t size = 1;
  bool is_missing = false;
};

// Reads a token outside of a string. Two kinds are not valid JSON numbers: the words that Python and others write for
// NaN and infinities, and numbers that no double can hold.
Token TokenAt(std::string_view text) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (text.starts_with(word)) return {word.size(), true};
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument) return {};
  return {static_cast<std::size_t>(end - text.data()), error == std::errc::result_out_of_range};
}

// Replaces invalid numbers with null. Strings stay unchanged.
std::string WithNulls(std::string_view line) {
  std::string text;
  bool is_in_string = false;
  while (!line.empty()) {
    Token token;
    if (!is_in_string) token = TokenAt(line);
    else if (line.front() == '\\') token.size = std::min<std::size_t>(2, line.size());
    if (line.front() == '"') is_in_string = !is_in_string;
    text += token.is_missing ? "null" : line.substr(0, token.size);
    line.remove_prefix(token.size);
  }
  return text;
}

}  // namespace

OwnNumbers NumbersOfLine(std::string_view line, bool keeps_missing) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr JsonLimits kLimits = {2 * kMostOwnLine, 8, 1024};  // A null may be longer than the text that it replaces.
  OwnNumbers numbers;
  line = Trim(line);
  if (!line.starts_with('{') || !line.ends_with('}') || line.size() > kMostOwnLine) return numbers;
  auto document = JsonDocument::Parse(std::string(line), kLimits);
  if (!document) document = JsonDocument::Parse(WithNulls(line), kLimits);
  if (!document || !document->root().is_object()) return numbers;
  for (const JsonValue value : document->root()) {
    const auto number = keeps_missing && value.is_null() ? std::optional(kNaN) : value.AsNumber();
    const bool is_missing = number && std::isnan(*number);
    if (!number || (!is_missing && !IsOwnNumber(*number)) || !IsOwnName(value.key()) || numbers.size() >= kMostOwnNames)
      continue;
    KeepNewest(numbers, value.key(), *number);
  }
  return numbers;
}

}  // namespace divvy::wire
