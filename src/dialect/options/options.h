// One option table for all sources: the command line, "#SBATCH" and "# GFLOW" lines, and the words of shims. The same
// table generates --help, the man pages and the completions, so they always agree.
//
// Why not a library: script lines need abbreviated and glued forms as in GNU getopt, applied to a JobSpec, with errors
// that name the line. The available libraries parse a process's argv and print errors themselves.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy::dialect {

/// Applies an option. The value is "" for a flag. Errors need not name the option, because the parser adds it.
using Apply = std::function<Status(std::string_view value)>;

/// Sets `target`, which must outlive the parse: a flag.
template <typename Target>
Apply Sets(Target& target, bool to = true) {
  return [&target, to](std::string_view) -> Status { return target = to, Status(); };
}
/// Keeps the value as text in `target`, which must outlive the parse.
template <typename Target>
Apply Keeps(Target& target) {
  return [&target](std::string_view value) -> Status { return target = std::string(value), Status(); };
}

/// Keeps what `read` makes of the value, and of `arguments` behind it, in `target`, which must outlive the parse.
template <typename Target, typename Read, typename... Arguments>
Apply Reads(Target& target, Read read, Arguments... arguments) {
  return [&target, read, arguments...](std::string_view value) -> Status {
    DIVVY_TRY(target, read(value, arguments...));
    return {};
  };
}

enum class Takes { kNothing, kValue, kOptionalValue /* only as --name=value */ };

/// The heading of an option in --help and man pages, in the order shown. Short tables have no headings (kNone).
enum class OptionGroup {
  kNone,
  kMostUsed,
  kResources,
  kGpuSharing,
  kPlacement,
  kTimeAndOrder,
  kDependencies,
  kArraysAndSweeps,
  kInputAndOutput,
  kMultiNode,
  kContainers,
  kNotifications,
  kOther,
};
/// "GPU sharing"; "" for kNone.
std::string_view Heading(OptionGroup group);

struct Option {
  std::string_view name;  // "gpus": written --gpus.
  char letter = 0;        // 'g': written -g. 0: none.
  Takes takes = Takes::kValue;
  std::string_view value_name;  // "N", for --help.
  std::string_view help;        // One line, no full stop.
  Apply apply;
  std::vector<std::string_view> aliases;  // Other long names, never shown.
  bool is_hidden = false;
  OptionGroup group = OptionGroup::kNone;

  /// Makes --NAME VALUE_NAME, or -L VALUE_NAME with a `letter`.
  static Option Value(std::string_view name, char letter, std::string_view value_name, std::string_view help,
                      Apply apply, std::vector<std::string_view> aliases = {}) {
    return {name, letter, Takes::kValue, value_name, help, std::move(apply), std::move(aliases)};
  }
  static Option Value(std::string_view name, std::string_view value_name, std::string_view help, Apply apply,
                      std::vector<std::string_view> aliases = {}) {
    return Value(name, 0, value_name, help, std::move(apply), std::move(aliases));
  }
  /// Makes --NAME, which takes no value.
  static Option Flag(std::string_view name, char letter, std::string_view help, Apply apply,
                     std::vector<std::string_view> aliases = {}) {
    return {name, letter, Takes::kNothing, "", help, std::move(apply), std::move(aliases)};
  }
  static Option Flag(std::string_view name, std::string_view help, Apply apply,
                     std::vector<std::string_view> aliases = {}) {
    return Flag(name, 0, help, std::move(apply), std::move(aliases));
  }
  /// Returns the option as one that --help does not list.
  Option Hidden() && { return is_hidden = true, std::move(*this); }
};

/// An option's help without its "(default: ...)" at the end, for texts about a value that was or may be given.
std::string_view WithoutDefault(std::string_view help);

struct Parsed {
  std::vector<std::string> positional;
  /// Words after "--". They are separate because they are never options.
  std::vector<std::string> after_dashes;
  bool saw_dashes = false;
};

/// An unknown long option whose name is not similar to that of a known option.
struct UnknownOption {
  std::string_view name;
  std::optional<std::string_view> value;  // The value behind "=".
  std::string_view next;                  // The next word of the line; "" at its end.
};
enum class UnknownIs { kRefused, kTaken, kTakenWithNext /* the next word is its value */ };
using TakeUnknown = std::function<UnknownIs(const UnknownOption& option)>;

struct ParseRules {
  bool stops_at_first_positional = false;  // "run CMD -x": -x belongs to CMD. CMD and all later words are
                                           // positional.
  bool allows_abbreviations = true;        // --out for --output, if only one long name begins so.
  bool allows_single_dash_long = false;    // -name value.
  TakeUnknown take_unknown;                // Decides about each unknown option. Not set: all are refused.
};

/// Applies `words` in order. Accepts "--name=value", "--name value", "-n value", "-nvalue", "-abc" (flags), "--".
/// Refuses an unknown option, suggesting the nearest known one, and a missing or unwanted value. Stops at the first
/// error.
Result<Parsed> ParseOptions(std::span<const Option> options, std::span<const std::string> words,
                            const ParseRules& rules = {});

}  // namespace divvy::dialect
