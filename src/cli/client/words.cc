#include "cli/client/words.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "cli/term/text_width.h"

namespace divvy::cli {

const Command* FindCommand(std::string_view name) {
  const auto found = std::ranges::find(Commands(), name, &Command::name);
  return found == Commands().end() ? nullptr : &*found;
}

std::vector<OptionSection> OptionSections(const Command& command) {
  std::map<dialect::OptionGroup, std::vector<dialect::Option>> groups;
  if (command.options != nullptr) {
    for (dialect::Option& option : command.options()) {
      if (!option.is_hidden) groups[option.group].push_back(std::move(option));
    }
  }
  std::vector<OptionSection> sections;
  for (auto& [group, options] : groups) sections.push_back({dialect::Heading(group), std::move(options)});
  return sections;
}

std::string OptionForm(const dialect::Option& option) {
  const std::string name = "--" + std::string(option.name);
  switch (option.takes) {
    case dialect::Takes::kNothing:
      return name;
    case dialect::Takes::kValue:
      return name + " " + std::string(option.value_name);
    case dialect::Takes::kOptionalValue:
      return name + "[=" + std::string(option.value_name) + "]";
  }
  return name;
}

std::string Capitalised(std::string_view text) {
  std::string out(text);
  if (!out.empty() && out.front() >= 'a' && out.front() <= 'z')
    out.front() = static_cast<char>(out.front() - 'a' + 'A');
  return out;
}

std::string WrapText(std::string_view text, std::string_view indent, std::size_t width) {
  std::string out;
  std::string line(indent);
  bool is_line_empty = true;
  for (std::string_view word : SplitWords(text)) {
    if (!is_line_empty && Width(line) + 1 + Width(word) > width) {
      out += line + "\n";
      line = indent;
      is_line_empty = true;
    }
    if (!is_line_empty) line += ' ';
    line += word;
    is_line_empty = false;
  }
  return out + line + "\n";
}

}  // namespace divvy::cli
