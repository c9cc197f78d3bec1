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
// The column where the names of a group's options begin.
constexpr std::size_t kNamesColumn = 21;

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

/// The names of a section's options in a few lines, behind its heading.
void AppendNames(std::string& out, const OptionSection& section, std::size_t width) {
  std::string names;
  for (const dialect::Option& option : section.options)
    names += (names.empty() ? "--" : " --") + std::string(option.name);
  const std::string lines = WrapText(names, std::string(kNamesColumn, ' '), width);
  std::string head = "  " + std::string(section.heading);
  head.resize(kNamesColumn, ' ');
  out += head + lines.substr(kNamesColumn);
}

std::string OptionsText(const Command& command, bool shows_all, std::size_t width) {
  std::string out;
  bool is_compact = false;
  for (const OptionSection& section : OptionSections(command)) {
    const bool is_grouped = !section.heading.empty();
    const bool is_described = shows_all || !is_grouped || section.heading == Heading(dialect::OptionGroup::kMostUsed);
    if (is_described) {
      const std::string heading = is_grouped ? std::string(section.heading) : "Options";
      out += "\n" + Paint(Colour::kBold, heading + ":") + "\n";
      for (const dialect::Option& option : section.options) AppendOption(out, option, width);
    } else {
      if (!is_compact) out += "\n" + Paint(Colour::kBold, "More options:") + "\n";
      is_compact = true;
      AppendNames(out, section, width);
    }
  }
  if (is_compact) out += "\nAll options with their descriptions: divvy " + std::string(command.name) + " --help-all\n";
  return out;
}

bool IsListed(const Command& command, bool shows_all) { return !command.is_hidden && (shows_all || !command.is_rare); }

std::string Overview(bool shows_all) {
  std::string out = "divvy " + std::string(kVersion) + " schedules GPU jobs on one server or many.\n\n";
  out += Paint(Colour::kBold, "Usage:") + " divvy COMMAND [OPTIONS]\n";
  std::vector<std::string_view> groups;
  std::size_t widest = 0;
  for (const Command& command : Commands()) {
    if (!IsListed(command, shows_all)) continue;
    if (std::ranges::find(groups, command.group) == groups.end()) groups.push_back(command.group);
    widest = std::max(widest, command.name.size());
  }
  for (std::string_view group : groups) {
    out += "\n" + Paint(Colour::kBold, group) + "\n";
    for (const Command& command : Commands()) {
      if (!IsListed(command, shows_all) || command.group != group) continue;
      std::string name(command.name);
      name.resize(widest + 2, ' ');
      out += "  " + name + std::string(command.summary) + "\n";
    }
  }
  out += "\nOptions and examples of a command:  divvy COMMAND --help, or man divvy-COMMAND\n";
  if (!shows_all) out += "All commands:                       divvy help --all\n";
  out +=
      "Try it without GPUs (emulated):     divvy up --emulate 8xH100-80GB && divvy run --gpus 1 -- env | grep CUDA\n";
  return out;
}

std::vector<dialect::Option> HelpTable(bool& shows_all) {
  return {dialect::Option::Flag("all", 'a', "List every command; with COMMAND, describe every option",
                                dialect::Sets(shows_all))};
}

}  // namespace

std::string HelpText(const Command& command, bool shows_all) {
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
  return out + OptionsText(command, shows_all, width);
}

std::vector<dialect::Option> HelpOptions() {
  static bool ignored = false;
  return HelpTable(ignored);
}

int HelpMain(const Words& words) {
  bool shows_all = false;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(HelpTable(shows_all), words));
  const Words& names = parsed.positional;
  if (names.empty()) {
    std::fputs(Overview(shows_all).c_str(), stdout);
    return 0;
  }
  if (const Command* command = FindCommand(names.front())) {
    std::fputs(HelpText(*command, shows_all).c_str(), stdout);
    return 0;
  }
  if (const auto shim = FindShim(names.front())) return shim({"--help"});
  const std::string_view near = NearestCommand(names.front());
  return Fail(InvalidArgument("there is no command '" + names.front() + "'" +
                              (near.empty() ? "" : "; did you mean divvy help " + std::string(near) + "?") +
                              " (divvy help --all lists them)"));
}

}  // namespace divvy::cli
