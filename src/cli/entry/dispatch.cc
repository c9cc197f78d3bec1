// Runs what was called: a command, or another tool by its name.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/client/commands.h"

namespace divvy::cli {
namespace {

// If a command takes another program's command line, the first word that is not an option starts it. --help behind that
// word belongs to the other program.
enum class AsksHelp { kNo, kHelp, kHelpAll };
AsksHelp AsksForHelp(const Words& words, bool takes_command) {
  for (const std::string& word : words) {
    if (word == "--") return AsksHelp::kNo;
    if (word == "--help-all") return AsksHelp::kHelpAll;
    if (word == "--help" || (word == "-h" && &word == &words.front())) return AsksHelp::kHelp;
    if (takes_command && !word.starts_with("-")) return AsksHelp::kNo;
  }
  return AsksHelp::kNo;
}

/// Other tools' names for our commands.
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
    const AsksHelp asks = AsksForHelp(rest, takes_command);
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
