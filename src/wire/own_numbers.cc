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

OwnNumbers NumbersOfLine(std::string_view line) {
  OwnNumbers numbers;
  line = Trim(line);
  if (!line.starts_with('{') || !line.ends_with('}') || line.size() > kMostOwnLine) return numbers;
  const auto document = JsonDocument::Parse(std::string(line), {kMostOwnLine, 8, 1024});
  if (!document || !document->root().is_object()) return numbers;
  for (const JsonValue value : document->root()) {
    const auto number = value.AsNumber();
    if (!number || !std::isfinite(*number) || !IsOwnName(value.key()) || numbers.size() >= kMostOwnNames) continue;
    KeepNewest(numbers, value.key(), *number);
  }
  return numbers;
}

}  // namespace divvy::wire
