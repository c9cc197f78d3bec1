// One table for options, wherever they are written: on the command line, in "#SBATCH" and "# GFLOW" lines, in the words
// of another tool's shim. The same table prints --help, the man pages and the completions, so none of them can lie.
//
// Why not a library: script lines need abbreviated and glued forms as GNU getopt reads them, applied to a JobSpec with
// an error that names its line; the libraries at hand parse a process's argv and print for themselves.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::dialect {

/// What applies an option. The value is "" for a flag. An error need not name the option: the parser adds it.
using Apply = std::function<Status(std::string_view value)>;

enum class Takes { kNothing, kValue, kOptionalValue /* only as --name=value */ };

struct Option {
  std::string_view name;  // "gpus": written --gpus.
  char letter = 0;        // 'g': written -g. 0: none.
  Takes takes = Takes::kValue;
  std::string_view value_name;  // "N", for --help.
  std::string_view help;        // One line, no full stop.
  Apply apply;
  std::vector<std::string_view> aliases;  // Other long names, never shown.
  bool is_hidden = false;
};

struct Parsed {
  std::vector<std::string> positional;
  /// Words after "--", kept apart because they are never options.
  std::vector<std::string> after_dashes;
  bool saw_dashes = false;
};

/// A long option that is no slip of a known one.
struct UnknownOption {
  std::string_view name;
  std::optional<std::string_view> value;  // What stands behind "=".
  std::string_view next;                  // The next word of the line; "" at its end.
};
enum class UnknownIs { kRefused, kTaken, kTakenWithNext /* the next word is its value */ };
using TakeUnknown = std::function<UnknownIs(const UnknownOption& option)>;

struct ParseRules {
  bool stops_at_first_positional = false;  // "run CMD -x": -x belongs to CMD. Everything from there is positional.
  bool allows_abbreviations = true;        // --out for --output, when only one long name begins so.
  bool allows_single_dash_long = false;    // -name value.
  TakeUnknown take_unknown;                // Empty: all are refused.
};

/// Applies `words` in order. Reads "--name=value", "--name value", "-n value", "-nvalue", "-abc" (flags), "--".
/// An unknown option is refused with the nearest known one; a missing or unwanted value is refused; the first error
/// ends it.
Result<Parsed> ParseOptions(std::span<const Option> options, std::span<const std::string> words,
                            const ParseRules& rules = {});

}  // namespace divvy::dialect
