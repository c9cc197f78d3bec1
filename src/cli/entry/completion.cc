// Completions: short shell functions that call this program while the user types. So a shell knows the options of the
// installed binary and the present jobs.
//
// The program prints one candidate per line: "WORD" or "WORD<tab>DESCRIPTION". Instead it may print ":files" if file
// names are expected, or ":command N" if the words from N on (0 is "divvy") are another program's command line.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <span>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/words.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

// A shell waits for the answer between two key strokes.
constexpr unsigned kMostSeconds = 2;
// Longer menus are not useful.
constexpr std::int64_t kMostJobs = 200;

constexpr std::string_view kBash = R"sh(# divvy and bash. Load it with: source <(divvy completion bash)
_divvy() {
  local -a words=() starts=(0)
  local i word joins= line typed kept
  # Bash splits words at = and : too; here they belong together again.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]})) && [[ -n $joins || $word == [=:]* ]]; then
      words[-1]+=$word
    else
      words+=("$word")
      starts+=("$i")
    fi
    joins=
    [[ $word == *[=:] ]] && joins=1
  done
  typed=${words[-1]}
  kept=${typed%"${typed##*[=:]}"}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      ':files')
        compopt -o default -o filenames
        COMPREPLY=($(compgen -f -- "${typed#"$kept"}"))
        return ;;
      ':command '*)
        i=${starts[${line#:command }]}
        if declare -F _command_offset >/dev/null; then
          _command_offset "$i"
        elif ((COMP_CWORD == i)); then
          COMPREPLY=($(compgen -c -- "$typed"))
        else
          compopt -o default
        fi
        return ;;
    esac
    word=${line%%$'\t'*}
    [[ $word == *[=:] ]] && compopt -o nospace
    COMPREPLY+=("${word#"$kept"}")
  done < <("${COMP_WORDS[0]}" internal-complete "${words[@]}" 2>/dev/null)
}
complete -F _divvy divvy
)sh";

constexpr std::string_view kZsh = R"sh(#compdef divvy
# divvy and zsh. Load it with: source <(divvy completion zsh)
_divvy() {
  local line word first
  local -a candidates
  while IFS= read -r line; do
    if [[ $line == ':files' ]]; then
      _files
      return
    elif [[ $line == ':command '* ]]; then
      first=${line#:command }
      shift $first words
      (( CURRENT -= first ))
      _normal
      return
    fi
    word=${line%%$'\t'*}
    if [[ $line == *$'\t'* ]]; then
      candidates+=("${word//:/\\:}:${line#*$'\t'}")
    else
      candidates+=("${word//:/\\:}")
    fi
  done < <("${words[1]}" internal-complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( ${#candidates} )) && _describe divvy candidates
}
if (( ! $+functions[compdef] )); then autoload -Uz compinit && compinit; fi
if [[ ${funcstack[1]-} == _divvy ]]; then _divvy "$@"; else compdef _divvy divvy; fi
)sh";

constexpr std::string_view kFish = R"sh(# divvy and fish. Load it with: divvy completion fish | source
function __divvy_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer ($words[1] internal-complete $words[2..-1] 2>/dev/null)
    if test "$answer[1]" = ':files'
        __fish_complete_path (commandline -ct)
    else if string match -q ':command *' -- "$answer[1]"
        set -l first (string replace ':command ' '' -- $answer[1])
        complete -C (string join ' ' -- $words[(math $first + 1)..-1])
    else if test (count $answer) -gt 0
        printf '%s\n' $answer
    end
end
complete -c divvy -f -a '(__divvy_complete)'
)sh";

/// Prints the candidates that begin with what is typed so far.
class Candidates {
 public:
  /// `kept`: the part of the typed word that every candidate repeats, such as "--state=".
  Candidates(std::string_view prefix, std::string kept = "") : prefix_(prefix), kept_(std::move(kept)) {}

  void Add(std::string_view word, std::string_view description = "") {
    if (!word.starts_with(prefix_) || word.empty()) return;
    std::string line = kept_ + std::string(word);
    if (!description.empty()) line += "\t" + std::string(description);
    // A name may contain anything, but a candidate must be one line.
    std::ranges::replace(line, '\n', ' ');
    std::printf("%s\n", line.c_str());
  }

 private:
  std::string_view prefix_;
  std::string kept_;
};

/// Position of the last id in a list such as "12,13" or "afterok:12:", which is the one being typed.
std::size_t LastPartBegin(std::string_view word, std::string_view separators) {
  const std::size_t at = word.find_last_of(separators);
  return at == std::string_view::npos ? 0 : at + 1;
}

void AddJobs(Candidates& candidates, bool includes_final) {
  auto api = Api::Connect();
  if (!api) return;
  wire::JobSelector select;
  select.user = "all";
  select.includes_final = includes_final;
  select.limit = kMostJobs;
  const auto jobs = api->Jobs(select);
  if (!jobs) return;
  for (const wire::JobView& job : *jobs) {
    const std::string id = job.array_id && job.array_index ? job.display_id : ToString(job.id);
    candidates.Add(id, job.state + ", " + job.name);
  }
  candidates.Add("@", "my last job");
}

void AddGpus(Candidates& candidates) {
  auto api = Api::Connect();
  if (!api) return;
  const auto gpus = api->Gpus();
  if (!gpus) return;
  for (const wire::GpuView& gpu : *gpus) {
    if (!gpu.node.empty()) continue;  // Only the controller's own GPUs, which have no node prefix.
    candidates.Add(std::to_string(gpu.index), gpu.state + ", " + gpu.model);
  }
}

void AddLabels(Candidates& candidates, std::string wire::JobView::*field) {
  auto api = Api::Connect();
  if (!api) return;
  wire::JobSelector select;
  select.user = "all";
  select.limit = kMostJobs;
  const auto jobs = api->Jobs(select);
  if (!jobs) return;
  std::vector<std::string> labels;
  for (const wire::JobView& job : *jobs) labels.push_back(job.*field);
  std::ranges::sort(labels);
  const auto repeated = std::ranges::unique(labels);
  labels.erase(repeated.begin(), repeated.end());
  for (const std::string& label : labels) candidates.Add(label);
}

void AddAll(Candidates& candidates, std::span<const std::string_view> words) {
  for (std::string_view word : words) candidates.Add(word);
}

constexpr std::string_view kStates[] = {"held",      "queued", "starting",  "running",   "paused", "stopping",
                                        "succeeded", "failed", "cancelled", "timed_out", "lost"};
constexpr std::string_view kSignals[] = {"TERM", "INT", "HUP", "USR1", "USR2", "CONT", "STOP", "QUIT", "KILL"};
constexpr std::string_view kQueueColumns[] = {"id",       "name",    "user",    "state",    "gpus",  "on",
                                              "time",     "limit",   "reason",  "priority", "exit",  "submitted",
                                              "started",  "ended",   "waited",  "project",  "group", "position",
                                              "restarts", "dialect", "comment", "depends",  "waste"};
constexpr std::string_view kEmulations[] = {"8xH100-80GB", "8xH200", "8xB200",   "8xA100-80GB",
                                            "4xA100-40GB", "4xL40S", "2xRTX4090"};

/// Completes the value of an option, if the possible values are known.
void CompleteValue(const Option& option, std::string_view typed, std::string kept) {
  std::size_t part = 0;
  if (option.name == "state" || option.name == "columns" || option.value_name == "IDS" || option.value_name == "LIST") {
    part = LastPartBegin(typed, ",:?");
  }
  kept += typed.substr(0, part);
  Candidates candidates(typed.substr(part), std::move(kept));
  if (option.name == "state") return AddAll(candidates, kStates);
  if (option.name == "columns") return AddAll(candidates, kQueueColumns);
  if (option.name == "stop-signal" || option.name == "signal") return AddAll(candidates, kSignals);
  if (option.name == "emulate" && typed.find_first_of("./") == typed.npos) return AddAll(candidates, kEmulations);
  if (option.name == "emulate") return void(std::puts(":files"));
  if (option.name == "placement")
    return AddAll(candidates, std::to_array<std::string_view>({"best", "sequential", "random", "pack", "spread"}));
  if (option.name == "topology")
    return AddAll(candidates,
                  std::to_array<std::string_view>({"any", "numa", "nvlink", "numa:required", "nvlink:required"}));
  if (option.name == "preemptible")
    return AddAll(candidates, std::to_array<std::string_view>({"never", "pause", "requeue"}));
  if (option.name == "open-mode") return AddAll(candidates, std::to_array<std::string_view>({"append", "truncate"}));
  if (option.name == "export") return AddAll(candidates, std::to_array<std::string_view>({"ALL", "NONE"}));
  if (option.name == "group") return AddLabels(candidates, &wire::JobView::group);
  if (option.name == "project") return AddLabels(candidates, &wire::JobView::project);
  if (option.value_name == "LIST" && option.name == "gpus") return AddGpus(candidates);
  if (option.name == "dependency" && part == 0) {
    for (std::string_view word : {"afterok:", "afterany:", "afternotok:", "after:", "singleton"}) candidates.Add(word);
  }
  if (option.name == "dependency" || option.value_name == "IDS") return AddJobs(candidates, false);
  if (option.value_name == "FILE" || option.value_name == "DIR" || option.value_name == "CSV") std::puts(":files");
}

/// The meaning of the word being typed, derived from the finished words after the command's name.
struct Position {
  const Option* wants_value = nullptr;  // The preceding option takes this word as its value.
  std::vector<std::string> positional;  // Only finished words.
  std::size_t first_positional = 0;     // Its index among all words; the command's name is 0.
  bool saw_dashes = false;
};

const Option* FindOption(std::span<const Option> options, std::string_view word) {
  for (const Option& option : options) {
    if (word.starts_with("--")) {
      const std::string_view name =
          word.substr(2, word.find('=') == std::string_view::npos ? word.npos : word.find('=') - 2);
      if (option.name == name || std::ranges::find(option.aliases, name) != option.aliases.end()) return &option;
    } else if (word.size() == 2 && option.letter == word[1]) {
      return &option;
    }
  }
  return nullptr;
}

Position ReadPosition(std::span<const Option> options, std::span<const std::string> words, bool ends_at_positional) {
  Position position;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    position.wants_value = nullptr;
    const bool is_option = word.size() > 1 && word.front() == '-' && !position.saw_dashes;
    if (is_option && word == "--") {
      position.saw_dashes = true;
      if (ends_at_positional) {
        position.first_positional = i + 1;
        break;
      }
    } else if (is_option) {
      const Option* option = FindOption(options, word);
      const bool takes_next = option != nullptr && option->takes == Takes::kValue && word.find('=') == word.npos;
      if (takes_next && i + 1 == words.size()) position.wants_value = option;
      if (takes_next) ++i;
    } else {
      if (position.positional.empty()) position.first_positional = i;
      position.positional.push_back(word);
      if (ends_at_positional) break;
    }
  }
  return position;
}

void CompleteOptionNames(std::span<const Option> options, std::string_view typed) {
  Candidates candidates(typed);
  for (const Option& option : options) {
    if (!option.is_hidden) candidates.Add("--" + std::string(option.name), Capitalised(option.help));
  }
  candidates.Add("--help", "Options and examples");
  const bool has_groups =
      std::ranges::any_of(options, [](const Option& option) { return option.group != dialect::OptionGroup::kNone; });
  if (has_groups) candidates.Add("--help-all", "Every option with its description");
}

void CompleteCommandNames(std::string_view typed) {
  Candidates candidates(typed);
  for (const Command& command : Commands()) {
    if (!command.is_hidden) candidates.Add(command.name, command.summary);
  }
}

void CompletePositional(const Command& command, const Position& position, std::string_view typed) {
  const std::size_t at = position.positional.size();
  Candidates candidates(typed);
  if (command.name == "help") return at == 0 ? CompleteCommandNames(typed) : void();
  if (command.name == "completion")
    return at == 0 ? AddAll(candidates, std::to_array<std::string_view>({"bash", "zsh", "fish"})) : void();
  if (command.name == "signal" && at == 0) return AddAll(candidates, kSignals);
  if (command.name == "group") {
    if (at == 0) candidates.Add("limit", "Limit how many jobs of a group run at once");
    if (at == 1) AddLabels(candidates, &wire::JobView::group);
    return;
  }
  if (command.completes == "job") {
    const bool includes_final = command.name == "show" || command.name == "logs" || command.name == "wait";
    return AddJobs(candidates, includes_final);
  }
  if (command.completes == "script") return void(std::puts(":files"));
  if (command.completes == "gpu") {
    if (at == 0) {
      candidates.Add("restrict", "New jobs use only these GPUs");
      candidates.Add("ignore", "Let jobs use a GPU despite this process");
      candidates.Add("unignore", "Remove the exception");
      return;
    }
    const bool is_restriction = position.positional.front() == "restrict";
    if (!is_restriction) return;
    const std::size_t part = LastPartBegin(typed, ",-");
    Candidates gpus(typed.substr(part), std::string(typed.substr(0, part)));
    AddGpus(gpus);
    if (part == 0) gpus.Add("all", "Allow all GPUs again");
  }
}

void Complete(std::span<const std::string> words) {
  const std::string& typed = words.back();
  if (words.size() == 1) return CompleteCommandNames(typed);
  const Command* command = FindCommand(words.front());
  if (command == nullptr || command->is_hidden) return;
  const std::vector<Option> options = command->options != nullptr ? command->options() : std::vector<Option>();
  const bool runs_words = command->completes == "command" && command->name != "help";
  const bool is_submission = runs_words || command->name == "submit";
  const Position position = ReadPosition(options, words.first(words.size() - 1), is_submission);
  if (position.wants_value != nullptr) return CompleteValue(*position.wants_value, typed, "");
  if (is_submission && position.first_positional > 0) {
    // The job's own command line begins at this word; word 0 is "divvy".
    std::printf(":command %zu\n", position.first_positional + 1);
    return;
  }
  if (typed.starts_with("--") && typed.find('=') != typed.npos && !position.saw_dashes) {
    const std::size_t value = typed.find('=') + 1;
    if (const Option* option = FindOption(options, typed))
      CompleteValue(*option, std::string_view(typed).substr(value), typed.substr(0, value));
    return;
  }
  if (typed.starts_with("-") && !position.saw_dashes) return CompleteOptionNames(options, typed);
  if (runs_words) {
    std::printf(":command %zu\n", words.size());
    return;
  }
  CompletePositional(*command, position, typed);
}

}  // namespace

int CompletionMain(const Words& words) {
  const std::string shell = words.empty() ? "" : words.front();
  const std::string_view script = shell == "bash"   ? kBash
                                  : shell == "zsh"  ? kZsh
                                  : shell == "fish" ? kFish
                                                    : std::string_view();
  if (script.empty() || words.size() != 1)
    return Fail(InvalidArgument("usage: divvy completion bash (or zsh, or fish)"));
  std::fwrite(script.data(), 1, script.size(), stdout);
  return 0;
}

int CompleteMain(const Words& words) {
  if (words.empty()) return 0;
  // A hanging daemon must not block the user's shell.
  std::signal(SIGALRM, [](int) { ::_exit(0); });
  ::alarm(kMostSeconds);
  Complete(words);
  return 0;
}

}  // namespace divvy::cli
