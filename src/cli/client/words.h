// Formats the texts of the command tables for --help, the man pages and the completions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/client/command.h"

namespace divvy::cli {

/// Finds a command, hidden ones included, by its exact name; null if there is none.
const Command* FindCommand(std::string_view name);

/// The options of a command that share a heading in --help. A command whose options have no headings has one section
/// with an empty heading. Hidden options are left out.
struct OptionSection {
  std::string_view heading;
  std::vector<dialect::Option> options;
};
std::vector<OptionSection> OptionSections(const Command& command);

/// Returns how an option is written in --help: "--gpus N", "--quiet", "--wait[=HOW]".
std::string OptionForm(const dialect::Option& option);

/// Makes the first letter upper case; words such as "/dev/null" stay.
std::string Capitalised(std::string_view text);

/// Wraps `text` into lines of at most `width` columns, each with `indent` in front and a line break. A wider word gets
/// its own line.
std::string WrapText(std::string_view text, std::string_view indent, std::size_t width);

}  // namespace divvy::cli
