// divvy help: the list of commands and the text about each of them, from the tables that also parse the command line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/client/table.h"
#include "cli/client/words.h"
#include "version.h"

namespace divvy::cli {
namespace {

// Wider lines are hard to read, however wide the terminal is.
constexpr std::size_t kWidestLine = 110;
constexpr std::size_t kNarrowestLine = 60;
// The column where the meaning of an option begins. A longer option has its meaning on the next line.
constexpr std::size_t kMeaningColumn = 26;

std::size_t LineWidth() {
  const int width = TerminalWidth();
  if (width <= 0) return kWidestLine;
  return std::clamp(static_cast<std::size_t>(width), kNarrowestLine, kWidestLine);
}

void AppendOption(std::string& out, const dialect::Option& option, std::size_t width) {
  std::string head = option.letter != 0 ? std::string("  -") + option.letter + ", " : "      ";
  head += OptionForm(option);
  const std::string indent(kMeaningColumn, ' ');
  const std::string meaning = WrapText(Capitalised(option.help), indent, width);
  if (head.size() + 2 > kMeaningColumn) {
    out += head + "\n" + meaning;
  } else {
    head.resize(kMeaningColumn, ' ');
    out += head + meaning.substr(kMeaningColumn);
  }
}

std::string Overview() {
  std::string out =
      "divvy " + std::string(kVersion) + " decides who gets which GPU, and when, and runs their jobs.\n\n";
  out += Paint(Colour::kBold, "Usage:") + " divvy COMMAND [OPTIONS]\n";
  std::vector<std::string_view> groups;
  std::size_t widest = 0;
  for (const Command& command : Commands()) {
    if (command.is_hidden) continue;
    if (std::ranges::find(groups, command.group) == groups.end()) groups.push_back(command.group);
    widest = std::max(widest, command.name.size());
  }
  for (std::string_view group : groups) {
    out += "\n" + Paint(Colour::kBold, group) + "\n";
    for (const Command& command : Commands()) {
      if (command.is_hidden || command.group != group) continue;
      std::string name(command.name);
      name.resize(widest + 2, ' ');
      out += "  " + name + std::string(command.summary) + "\n";
    }
  }
  out += "\nA command's options and examples: divvy COMMAND --help, or man divvy-COMMAND\n";
  out += "To try it on stand-in GPUs:       divvy up --emulate 8xH100-80GB && divvy run --gpus 1 -- env | grep CUDA\n";
  return out;
}

}  // namespace

std::string HelpText(const Command& command) {
  const std::size_t width = LineWidth();
  std::string out = "divvy " + std::string(command.name) + ": " + std::string(command.summary) + "\n\n";
  out += Paint(Colour::kBold, "Usage:") + " " + std::string(command.usage) + "\n";
  if (!command.about.empty()) out += "\n" + WrapText(command.about, "", width);
  if (!command.examples.empty()) {
    out += "\n" + Paint(Colour::kBold, "Examples:") + "\n";
    std::size_t widest = 0;
    for (const Example& example : command.examples) widest = std::max(widest, example.command.size());
    for (const Example& example : command.examples) {
      out += "  " + std::string(example.command);
      if (!example.meaning.empty()) {
        // Put meanings in one column if they fit next to the longest command, else each below its command.
        const bool fits = widest + 4 + example.meaning.size() + 2 <= width;
        out += fits ? std::string(widest - example.command.size() + 2, ' ') : std::string("\n      ");
        out += std::string(example.meaning);
      }
      out += "\n";
    }
  }
  const std::vector<dialect::Option> options =
      command.options != nullptr ? command.options() : std::vector<dialect::Option>();
  if (!options.empty()) out += "\n" + Paint(Colour::kBold, "Options:") + "\n";
  for (const dialect::Option& option : options) {
    if (!option.is_hidden) AppendOption(out, option, width);
  }
  return out;
}

int HelpMain(const Words& words) {
  if (words.empty()) {
    std::fputs(Overview().c_str(), stdout);
    return 0;
  }
  if (const Command* command = FindCommand(words.front())) {
    std::fputs(HelpText(*command).c_str(), stdout);
    return 0;
  }
  if (const auto shim = FindShim(words.front())) return shim({"--help"});
  const std::string_view near = NearestCommand(words.front());
  return Fail(InvalidArgument("there is no command '" + words.front() + "'" +
                              (near.empty() ? "" : "; did you mean divvy help " + std::string(near) + "?") +
                              " (divvy help lists them)"));
}

}  // namespace divvy::cli
