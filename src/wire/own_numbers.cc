#include "wire/own_numbers.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "wire/json.h"

namespace divvy::wire {

bool IsOwnName(std::string_view name) {
  return !name.empty() && name.size() <= kMostOwnName &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
}

void KeepNewest(OwnNumbers& numbers, std::string_view name, double value) {
  const auto at = std::ranges::find(numbers, name, &OwnNumbers::value_type::first);
  if (at != numbers.end()) at->second = value;
  else numbers.emplace_back(name, value);
}

namespace {

// JSON has no words for what is no number. Those that Python and others write for it become null; what stands in a
// string stays.
std::string WithNulls(std::string_view line) {
  std::string text;
  bool is_in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    std::size_t word = 0;
    for (const std::string_view missing : {"NaN", "Infinity", "-Infinity"}) {
      if (!is_in_string && line.substr(i).starts_with(missing)) word = missing.size();
    }
    if (word > 0) {
      text += "null";
      i += word - 1;
      continue;
    }
    text += line[i];
    if (line[i] == '"') is_in_string = !is_in_string;
    else if (is_in_string && line[i] == '\\' && i + 1 < line.size()) text += line[++i];
  }
  return text;
}

}  // namespace

OwnNumbers NumbersOfLine(std::string_view line) {
  constexpr JsonLimits kLimits = {2 * kMostOwnLine, 8, 1024};  // A null may be longer than what it stands for.
  OwnNumbers numbers;
  line = Trim(line);
  if (!line.starts_with('{') || !line.ends_with('}') || line.size() > kMostOwnLine) return numbers;
  auto document = JsonDocument::Parse(std::string(line), kLimits);
  if (!document) document = JsonDocument::Parse(WithNulls(line), kLimits);
  if (!document || !document->root().is_object()) return numbers;
  for (const JsonValue value : document->root()) {
    const auto number = value.AsNumber();
    if (!number || !std::isfinite(*number) || !IsOwnName(value.key()) || numbers.size() >= kMostOwnNames) continue;
    KeepNewest(numbers, value.key(), *number);
  }
  return numbers;
}

}  // namespace divvy::wire
