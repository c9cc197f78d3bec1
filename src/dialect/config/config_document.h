// The part of TOML 1.0 that divvy.toml needs, as a flat list of entries with their lines: sections, keys, texts on one
// line, numbers, truth values, and lists of these. What else TOML has (tables in tables, dates, texts over several
// lines) is refused by name. Internal to this folder.
//
// Why not toml++ 3.3: on some malformed files it asserts or runs into undefined behaviour (a key of "é", "[,]", a NUL),
// and in a file that people write, malformed is the case that matters. This also finds what people mean: policy = fifo.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace divvy::dialect {

/// No value (a section's own line), or a list of mixed kinds, for which divvy.toml has no use.
using ConfigValue = std::variant<std::monostate, std::string, std::int64_t, double, bool, std::vector<std::string>,
                                 std::vector<std::int64_t>>;

struct ConfigEntry {
  int line = 0;
  std::string section;  // "queue"; empty: before the first section.
  std::string key;      // Empty: the section's own line.
  ConfigValue value;
};

/// Every entry in the order of the lines; no key and no section is there twice. A mistake: "PATH:3: ...".
Result<std::vector<ConfigEntry>> ReadConfigDocument(std::string_view toml, std::string_view path);

}  // namespace divvy::dialect
