// The words of the command tables, put into lines: what --help, the man pages and the completions share.
#pragma once

#include <string>
#include <string_view>

#include "cli/client/command.h"

namespace divvy::cli {

/// By its exact name, hidden ones too; null if there is none.
const Command* FindCommand(std::string_view name);

/// "--gpus N", "--quiet", "--wait[=HOW]".
std::string OptionForm(const dialect::Option& option);

/// The first letter large; words such as "/dev/null" stay.
std::string Capitalised(std::string_view text);

/// `text` in lines of at most `width` columns, each behind `indent` and ended. A word that is wider keeps a line of its
/// own.
std::string WrapText(std::string_view text, std::string_view indent, std::size_t width);

}  // namespace divvy::cli
