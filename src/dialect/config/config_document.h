// The part of TOML 1.0 that divvy.toml needs, as a flat list of entries with their lines: sections, keys, single-line
// strings, numbers, booleans, and lists of these; [[providers]] and [[providers.shapes]] as arrays of tables. The rest
// of TOML (nested tables, dates, multi-line strings) is refused by name. Internal to this folder.
//
// Why not toml++ 3.3: on some malformed files (a key of "é", "[,]", a NUL) it asserts or has undefined behaviour. Users
// write this file by hand, so malformed input matters. This parser also recognises common mistakes: policy = fifo.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace divvy::dialect {

/// monostate: a section's own line, or a list of mixed types, which divvy.toml never uses.
using ConfigValue = std::variant<std::monostate, std::string, std::int64_t, double, bool, std::vector<std::string>,
                                 std::vector<std::int64_t>>;

struct ConfigEntry {
  int line = 0;
  std::string section;  // "queue". Empty: before the first section.
  std::string key;      // Empty: the section's own line.
  ConfigValue value;
  /// For [[providers]] and [[providers.shapes]]: the number of the provider, and of its shape, from 1. Otherwise 0.
  int provider = 0;
  int shape = 0;
};

/// Returns every entry in line order. Refuses duplicate keys and sections. Errors begin with "PATH:3: ...".
Result<std::vector<ConfigEntry>> ReadConfigDocument(std::string_view toml, std::string_view path);

}  // namespace divvy::dialect
