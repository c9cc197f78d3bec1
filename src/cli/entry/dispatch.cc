// Runs what was called: a command, or another tool by its name.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/client/commands.h"

namespace divvy::cli {
namespace {

/// Returns whether the word behind `word` is its value: "--gpus 1" and "-g 1", but not "--gpus=1".
bool TakesNextWord(std::string_view word, const std::vector<dialect::Option>& options) {
  const bool is_long = word.starts_with("--");
  if (!is_long && word.size() != 2) return false;
  return std::ranges::any_of(options, [&](const dialect::Option& option) {
    if (option.takes != dialect::Takes::kValue) return false;
    if (!is_long) return option.letter == word[1];
    const std::string_view name = word.substr(2);
    return option.name == name || std::ranges::find(option.aliases, name) != option.aliases.end();
  });
}

// Whether --help is requested for divvy's command. If a command takes another program's command line, the first word
// that is neither an option nor an option's value starts it. --help behind that word belongs to the other program.
enum class AsksHelp { kNo, kHelp, kHelpAll };
AsksHelp AsksForHelp(const Words& words, bool takes_command, const std::vector<dialect::Option>& options) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") return AsksHelp::kNo;
    if (word == "--help-all") return AsksHelp::kHelpAll;
    if (word == "--help" || (word == "-h" && i == 0)) return AsksHelp::kHelp;
    if (!takes_command) continue;
    if (!word.starts_with("-")) return AsksHelp::kNo;
    const bool is_value_next = i + 1 < words.size() && !words[i + 1].starts_with("-");
    if (is_value_next && TakesNextWord(word, options)) ++i;
  }
  return AsksHelp::kNo;
}

/// Names that other tools use for divvy's commands.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"ps", "queue"},    {"list", "queue"},    {"ls", "queue"},  {"jobs", "queue"},
    {"kill", "cancel"}, {"stop", "cancel"},   {"rm", "cancel"}, {"delete", "cancel"},
    {"exec", "run"},    {"describe", "show"}, {"info", "show"}, {"inspect", "show"}};

}  // namespace

std::string_view NearestCommand(std::string_view word) {
  for (const auto& [theirs, ours] : kElsewhere) {
    if (theirs == word) return ours;
  }
  std::vector<std::string_view> known;
  for (const Command& one : Commands()) {
    if (!one.is_hidden) known.push_back(one.name);
  }
  known.insert(known.end(), ShimNames().begin(), ShimNames().end());
  return Nearest(word, known);
}

// "divvy vh exec run ...", "divvy sbatch ...": the other tools' names work as commands too.
int Main(const Words& words) {
  const std::string& called = words.front();
  const std::string_view name = std::string_view(called).substr(called.rfind('/') + 1);
  if (const auto shim = FindShim(name)) return shim({words.begin() + 1, words.end()});
  if (words.size() < 2 || words[1] == "--help" || words[1] == "-h") return HelpMain({});
  if (words[1] == "--help-all") return HelpMain({"--all"});
  const bool asks_version = words[1] == "--version" || words[1] == "-V";
  const Words rest(words.begin() + 2, words.end());
  const std::string_view said = asks_version ? std::string_view("version") : std::string_view(words[1]);
  const auto command = std::ranges::find(Commands(), said, &Command::name);
  if (command != Commands().end()) {
    const bool takes_command = words[1] == "submit" || words[1] == "run" || words[1] == "explain";
    const bool needs_options = takes_command && command->options != nullptr;
    const AsksHelp asks =
        AsksForHelp(rest, takes_command, needs_options ? command->options() : std::vector<dialect::Option>());
    if (asks == AsksHelp::kHelpAll) return HelpMain({words[1], "--all"});
    if (asks == AsksHelp::kHelp) return HelpMain({words[1]});
    return command->run(rest);
  }
  if (const auto shim = FindShim(words[1])) return shim(rest);
  const std::string_view near = NearestCommand(words[1]);
  return Fail(InvalidArgument("there is no command '" + words[1] + "'" +
                              (near.empty() ? "" : "; did you mean divvy " + std::string(near) + "?") +
                              " (divvy help --all lists them)"));
}

}  // namespace divvy::cli
