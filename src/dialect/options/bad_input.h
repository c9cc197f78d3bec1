// Tables of bad inputs for tests. tests/bad_input/*.txt have lines of KIND <TAB> INPUT <TAB> WHAT THE ERROR MUST
// CONTAIN. '#' begins a comment line. In INPUT, \n \t \r \\ and \xNN are escapes. A test file of another dialect adds
// its kinds with one static object:
//
//   const BadInputKind kYaml("yaml", [](const std::string& input) -> std::optional<std::string> { ... });
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace divvy::dialect {

/// Returns the error for `input`; nullopt if it was accepted. If the input was refused but has changed the result all
/// the same, returns a text that says so.
using BadInputReader = std::function<std::optional<std::string>(const std::string& input)>;

inline std::map<std::string, BadInputReader>& BadInputKinds() {
  static std::map<std::string, BadInputReader> kinds;
  return kinds;
}

struct BadInputKind {
  BadInputKind(std::string name, BadInputReader reader) { BadInputKinds()[std::move(name)] = std::move(reader); }
};

}  // namespace divvy::dialect
