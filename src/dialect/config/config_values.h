// Parsers for values of divvy.toml, used by all tables. Errors name neither the key nor the line: "is not a text in
// quotes". Internal to this folder.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "dialect/config/config_document.h"
#include "dialect/options/quoted.h"
#include "engine/policy.h"

namespace divvy::dialect {

/// The error for a value of the wrong type: "is not `what`".
Error Expected(std::string_view what);
/// Returns the error for a value that is not a suitable number. It shows the value if that is a text or a whole number:
/// "is 65, not `what`".
Error ExpectedNumber(const ConfigValue& value, const std::string& what);
Result<std::string> ConfigText(const ConfigValue& value, std::string_view example);
Result<std::int64_t> ConfigCount(const ConfigValue& value, std::int64_t least, std::int64_t most);
Result<bool> ConfigYesOrNo(const ConfigValue& value);
/// A list of strings; it may be empty.
Result<std::vector<std::string>> ConfigNames(const ConfigValue& value);
/// Requires a unit: a bare number could mean minutes to one reader and seconds to another.
Result<Duration> ConfigSpan(const ConfigValue& value, std::string_view example);
Result<QueuePolicy> ConfigQueuePolicy(const ConfigValue& value);
Result<PlacementStrategy> ConfigPlacement(const ConfigValue& value);

template <typename Choice>
Result<Choice> ConfigOneOf(const ConfigValue& value,
                           std::initializer_list<std::pair<std::string_view, Choice>> choices) {
  std::vector<std::string_view> names;
  std::string all;
  for (const auto& [name, choice] : choices) {
    names.push_back(name);
    all += (all.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  DIVVY_TRY(const std::string text, ConfigText(value, names.front()));
  for (const auto& [name, choice] : choices) {
    if (name == text) return choice;
  }
  const std::string_view near = text.size() > 40 ? std::string_view() : Nearest(text, names);
  return InvalidArgument(Quoted(text) + " is not valid: expected one of " + all +
                         (near.empty() ? "" : "; did you mean \"" + std::string(near) + "\"?"));
}

/// Finds the row called `wanted`, or adds it.
template <typename Row>
Row& ConfigRow(std::vector<Row>& rows, std::string Row::*name, std::string_view wanted) {
  for (Row& row : rows) {
    if (row.*name == wanted) return row;
  }
  rows.emplace_back();
  rows.back().*name = std::string(wanted);
  return rows.back();
}

/// Returns the error with the name of the key added, unless the message has it already.
Error AboutConfigKey(const ConfigEntry& entry, const Error& error);
Error UnknownConfigKey(const ConfigEntry& entry, std::span<const std::string_view> keys);

}  // namespace divvy::dialect
