#include "dialect/slurm/slurm.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <span>

#include "base/text.h"
#include "dialect/options/components.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm_environment.h"
#include "dialect/slurm/slurm_noted_options.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kMagic = "#SBATCH";
constexpr std::size_t kMostNotesOnUnread = 4;

std::string At(std::string_view path, int line) { return std::string(path) + " line " + std::to_string(line) + ": "; }

/// Splits a line into words as sbatch does: quotes group, a backslash keeps the next character, and '#' at the
/// beginning of a word ends the line.
std::string SplitSlurmWords(std::string_view text, std::vector<std::string>& words) {
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < text.size()) {
        word += text[++i];
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else if (c == '#' && !in_word) {
      return "";
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return std::string("the quote ") + quote + " is not closed";
  if (in_word) words.push_back(std::move(word));
  return "";
}

/// Why a line such as "#sbatch", "# SBATCH", "#SBTACH" or "##SBATCH" is ignored; "" for any other comment.
std::string WhyUnread(std::string_view line, bool& is_on_purpose) {
  std::string_view rest = line;
  std::size_t hashes = 0;
  while (rest.starts_with('#')) {
    rest.remove_prefix(1);
    ++hashes;
  }
  const bool has_space = rest.starts_with(' ') || rest.starts_with('\t');
  const std::vector<std::string_view> words = SplitWords(rest);
  if (words.empty() || hashes == 0) return "";
  if (words.front() == "SBATCH") {
    is_on_purpose = true;
    return hashes > 1 ? "switched off by the second '#'" : has_space ? "switched off by the space after '#'" : "";
  }
  constexpr std::array<std::string_view, 1> kName = {"sbatch"};
  const std::string lower = ToLower(words.front());
  if (words.size() > 1 && !words[1].starts_with('-')) return "";
  if (words.size() > 1 && !lower.empty() && (lower == "sbatch" || !Nearest(lower, kName).empty())) {
    return "this is a comment to Slurm; write #SBATCH";
  }
  return "";
}

/// SBATCH_* variables and their options, as in sbatch's man page.
struct Variable {
  std::string_view name;
  std::string_view option;
  bool is_flag = false;  // Counts if it exists, whatever its value.
};
constexpr auto kVariables = std::to_array<Variable>({
    {"SBATCH_ACCOUNT", "account"},
    {"SBATCH_ARRAY_INX", "array"},
    {"SBATCH_BATCH", "batch"},
    {"SBATCH_CLUSTERS", "clusters"},
    {"SBATCH_COMMENT", "comment"},
    {"SBATCH_CONSTRAINT", "constraint"},
    {"SBATCH_CONTAINER", "container"},
    {"SBATCH_CORE_SPEC", "core-spec"},
    {"SBATCH_CPUS_PER_GPU", "cpus-per-gpu"},
    {"SBATCH_CPUS_PER_TASK", "cpus-per-task"},
    {"SBATCH_DISTRIBUTION", "distribution"},
    {"SBATCH_ERROR", "error"},
    {"SBATCH_EXCLUSIVE", "exclusive"},
    {"SBATCH_EXPORT", "export"},
    {"SBATCH_GET_USER_ENV", "get-user-env"},
    {"SBATCH_GPU_BIND", "gpu-bind"},
    {"SBATCH_GPU_FREQ", "gpu-freq"},
    {"SBATCH_GPUS", "gpus"},
    {"SBATCH_GPUS_PER_NODE", "gpus-per-node"},
    {"SBATCH_GPUS_PER_TASK", "gpus-per-task"},
    {"SBATCH_GRES", "gres"},
    {"SBATCH_GRES_FLAGS", "gres-flags"},
    {"SBATCH_HINT", "hint"},
    {"SBATCH_INPUT", "input"},
    {"SBATCH_JOB_NAME", "job-name"},
    {"SBATCH_LICENSES", "licenses"},
    {"SBATCH_MEM_PER_CPU", "mem-per-cpu"},
    {"SBATCH_MEM_PER_GPU", "mem-per-gpu"},
    {"SBATCH_MEM_PER_NODE", "mem"},
    {"SBATCH_NETWORK", "network"},
    {"SBATCH_NO_REQUEUE", "no-requeue", true},
    {"SBATCH_OPEN_MODE", "open-mode"},
    {"SBATCH_OUTPUT", "output"},
    {"SBATCH_PARTITION", "partition"},
    {"SBATCH_PROFILE", "profile"},
    {"SBATCH_QOS", "qos"},
    {"SBATCH_REQUEUE", "requeue", true},
    {"SBATCH_RESERVATION", "reservation"},
    {"SBATCH_SIGNAL", "signal"},
    {"SBATCH_THREADS_PER_CORE", "threads-per-core"},
    {"SBATCH_THREAD_SPEC", "thread-spec"},
    {"SBATCH_TIMELIMIT", "time"},
    {"SBATCH_WAIT", "wait", true},
    {"SBATCH_WCKEY", "wckey"},
});

constexpr std::string_view kSbatchPrefix = "SBATCH_";
constexpr std::string_view kSrunPrefix = "SLURM_";
/// Options that salloc and srun lack or define differently.
constexpr std::array<std::string_view, 10> kOnlySbatch = {"array",  "batch",     "error",      "export",  "input",
                                                          "output", "open-mode", "no-requeue", "requeue", "wait"};
constexpr auto kOnlySrun = std::to_array<Variable>({
    {"SLURM_EXPORT_ENV", "export"},
    {"SLURM_NNODES", "nodes"},
    {"SLURM_NPROCS", "ntasks"},
    {"SLURM_NTASKS", "ntasks"},
    {"SLURM_NTASKS_PER_NODE", "ntasks-per-node"},
    {"SLURM_OVERCOMMIT", "overcommit", true},
    {"SLURM_TRES_PER_TASK", "tres-per-task"},
});

bool HasName(std::string_view variable, std::string_view name) {
  return variable.size() > name.size() && variable.starts_with(name) && variable[name.size()] == '=';
}

}  // namespace

SlurmLines FindSlurmLines(std::string_view script) {
  SlurmLines found;
  int number = 0;
  bool has_begun = false;  // The first command has been seen.
  for (std::string_view line : Split(script, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with(kMagic)) {
      if (has_begun) {
        found.unread.push_back(
            {number, std::string(line), "Slurm reads no options after the first command; move the line up", false});
        continue;
      }
      SlurmLine one{.number = number, .text = std::string(line), .words = {}, .error = ""};
      one.error = SplitSlurmWords(line.substr(kMagic.size()), one.words);
      found.lines.push_back(std::move(one));
      continue;
    }
    const std::string_view trimmed = Trim(line);
    if (trimmed.starts_with(kMagic) && !has_begun) {
      found.unread.push_back(
          {number, std::string(line), "indented, so a comment to Slurm; begin the line with #SBATCH", false});
    } else if (trimmed.starts_with('#')) {
      bool is_on_purpose = false;
      const std::string why = WhyUnread(trimmed, is_on_purpose);
      if (!why.empty() && !has_begun) found.unread.push_back({number, std::string(line), why, is_on_purpose});
    } else if (!trimmed.empty()) {
      has_begun = true;
    }
  }
  return found;
}

namespace {

/// Options of LSF ("#BSUB") and PBS ("#PBS") that sbatch reads too.
struct ForeignOption {
  char letter;
  std::string_view option;
  bool is_flag = false;
};
constexpr auto kBsubOptions = std::to_array<ForeignOption>({{'J', "job-name"},
                                                            {'M', "mem-per-cpu"},
                                                            {'W', "time"},
                                                            {'e', "error"},
                                                            {'m', "nodelist"},
                                                            {'n', "ntasks"},
                                                            {'o', "output"},
                                                            {'q', "partition"},
                                                            {'x', "exclusive", true}});
constexpr auto kPbsOptions = std::to_array<ForeignOption>({{'A', "account"},
                                                           {'N', "job-name"},
                                                           {'a', "begin"},
                                                           {'e', "error"},
                                                           {'h', "hold", true},
                                                           {'l', ""},
                                                           {'o', "output"},
                                                           {'q', "partition"}});

/// "-l nodes=2:ppn=4:gpus=1,walltime=1:00:00" of PBS.
std::vector<std::string> ReadPbsResources(std::string_view list, std::vector<std::string>& unread) {
  std::vector<std::string> options;
  for (const std::string_view item : Split(list, ',')) {
    const std::vector<std::string_view> parts = Split(item, ':');
    const auto value = [](std::string_view part) { return std::string(part.substr(part.find('=') + 1)); };
    if (item.starts_with("walltime=")) {
      options.push_back("--time=" + value(item));
    } else if (item.starts_with("mem=")) {
      options.push_back("--mem=" + value(item));
    } else if (item.starts_with("nodes=") && ParseInteger(value(parts.front()))) {
      options.push_back("--nodes=" + value(parts.front()));
      for (const std::string_view part : std::span(parts).subspan(1)) {
        if (part.starts_with("ppn=")) options.push_back("--ntasks-per-node=" + value(part));
        else if (part.starts_with("gpus=")) options.push_back("--gpus-per-node=" + value(part));
        else unread.push_back("-l nodes=:" + std::string(part));
      }
    } else {
      unread.push_back("-l " + std::string(item));
    }
  }
  return options;
}

/// The value as Slurm writes it. LSF counts memory in KiB, time as [hours:]minutes, and separates hosts by spaces.
std::string AsSlurmWrites(char letter, std::string value) {
  if (letter == 'M' && ParseInteger(value)) return value + "K";
  if (letter == 'W' && std::ranges::count(value, ':') == 1) return value + ":00";
  if (letter == 'm') std::ranges::replace(value, ' ', ',');
  return value;
}

/// One line's words as options of Slurm. Those without a counterpart are added to `unread`.
std::vector<std::string> ReadForeignWords(const std::vector<std::string>& words, bool is_bsub,
                                          std::vector<std::string>& unread) {
  const std::span<const ForeignOption> known = is_bsub ? std::span<const ForeignOption>(kBsubOptions) : kPbsOptions;
  std::vector<std::string> options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const char letter = word.size() > 1 && word.front() == '-' ? word[1] : '\0';
    const auto option = std::ranges::find(known, letter, &ForeignOption::letter);
    if (option == known.end()) {
      unread.push_back(word);
    } else if (option->is_flag) {
      options.push_back("--" + std::string(option->option));
    } else {
      const std::string value = word.size() > 2 ? word.substr(2) : i + 1 < words.size() ? words[++i] : "";
      if (option->option.empty()) std::ranges::move(ReadPbsResources(value, unread), std::back_inserter(options));
      else
        options.push_back("--" + std::string(option->option) + "=" + (is_bsub ? AsSlurmWrites(letter, value) : value));
    }
  }
  return options;
}

/// As sbatch does, reads "#BSUB" and "#PBS" lines before the first command. "#SBATCH" lines override them; in a script
/// that has such lines, a wrong line of the others is only noted, because it may be for another system.
Status ApplyForeignLines(std::string_view text, std::string_view path, const ParseContext& around, JobSpec& spec) {
  const std::vector<Option> options = SbatchOptions(spec, around);
  const bool has_own_lines = !FindSlurmLines(text).lines.empty();
  int number = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view trimmed = Trim(line);
    if (!trimmed.empty() && !trimmed.starts_with('#')) break;
    const std::string_view magic = line.substr(0, line.find_first_of(" \t"));
    if (magic != "#BSUB" && magic != "#PBS") continue;
    std::vector<std::string> words, unread;
    std::string wrong = SplitSlurmWords(line.substr(magic.size()), words);
    if (wrong.empty()) {
      const JobSpec before = spec;
      const auto parsed = ParseOptions(options, ReadForeignWords(words, magic == "#BSUB", unread));
      if (!parsed) wrong = parsed.error().message;
      if (!parsed) spec = before;
    }
    if (!wrong.empty() && !has_own_lines) return InvalidArgument(At(path, number) + std::string(magic) + ": " + wrong);
    if (!wrong.empty()) {
      AddNote(spec, "line " + std::to_string(number) + ": this " + std::string(magic) + " line is ignored: " + wrong);
      continue;
    }
    if (!unread.empty())
      AddNote(spec, "line " + std::to_string(number) + ": " + std::string(magic) + " " + Join(unread, " ") +
                        " is ignored; write the option of Slurm in a #SBATCH line");
  }
  return {};
}

}  // namespace

Status ApplySlurmLines(std::string_view text, std::string_view path, const ParseContext& around, JobSpec& spec) {
  spec.dialect = Dialect::kSlurm;
  slurm::KeepOrigin(spec, around);
  std::vector<Option> options = SbatchOptions(spec, around);
  const SlurmLines found = FindSlurmLines(text);
  spec.request.others.clear();
  JobSpec component;
  std::size_t number = 0;
  const auto take = [&]() -> Status {
    return number == 0 ? Status() : TakeComponent(std::move(component), number, spec);
  };
  for (const SlurmLine& line : found.lines) {
    if (!line.error.empty()) return InvalidArgument(At(path, line.number) + line.error);
    if (BeginsComponent(line)) {
      if (const Status taken = take(); !taken) return InvalidArgument(At(path, line.number) + taken.error().message);
      ++number;
      component = SpecOfComponent(spec, number);
      options = SbatchOptions(component, around);
      continue;
    }
    auto parsed = ParseOptions(options, line.words, {.take_unknown = slurm::TakeSiteOptions(spec, true)});
    if (!parsed) return InvalidArgument(At(path, line.number) + parsed.error().message);
    parsed->positional.insert(parsed->positional.end(), parsed->after_dashes.begin(), parsed->after_dashes.end());
    for (const std::string& word : parsed->positional) {
      AddNote(spec, "line " + std::to_string(line.number) + ": " + Quoted(word) +
                        " does not belong to an option; quote values that contain spaces");
    }
  }
  if (const Status taken = take(); !taken) return InvalidArgument(std::string(path) + ": " + taken.error().message);
  std::size_t told = 0;
  for (const SlurmLines::Unread& unread : found.unread) {
    if (unread.is_on_purpose || ++told > kMostNotesOnUnread) continue;
    AddNote(spec, "line " + std::to_string(unread.number) + " is ignored: " + unread.why);
  }
  return {};
}

Status ApplySbatchEnvironment(const ParseContext& around, JobSpec& spec) {
  return ApplyCommandEnvironment(kSbatchPrefix, around, spec);
}

Status ApplyCommandEnvironment(std::string_view prefix, const ParseContext& around, JobSpec& spec) {
  const auto is_set = [&](std::string_view name) {
    return std::ranges::any_of(around.environment, [&](const std::string& entry) { return HasName(entry, name); });
  };
  if (prefix == kSrunPrefix && (is_set("SLURM_JOB_ID") || is_set("SLURM_JOBID"))) return {};
  const std::vector<Option> options = SbatchOptions(spec, around);
  const auto apply = [&](const Variable& variable, const std::string& name) -> Status {
    for (const std::string& entry : around.environment) {
      if (!HasName(entry, name)) continue;
      const std::string value = entry.substr(name.size() + 1);
      // An empty variable has no effect, because scripts often unset variables by emptying them. Only a variable that
      // stands for a flag counts even if it is empty.
      if (value.empty() && !variable.is_flag && variable.option != "exclusive") continue;
      std::string word = "--" + std::string(variable.option);
      if (!variable.is_flag && !value.empty()) word += "=" + value;
      const std::array<std::string, 1> words = {word};
      if (auto parsed = ParseOptions(options, words); !parsed) {
        return InvalidArgument(name + " in the environment: " + parsed.error().message);
      }
    }
    return {};
  };
  for (const Variable& variable : kVariables) {
    if (prefix != kSbatchPrefix && std::ranges::find(kOnlySbatch, variable.option) != kOnlySbatch.end()) continue;
    DIVVY_CHECK(apply(variable, std::string(prefix) + std::string(variable.name.substr(kSbatchPrefix.size()))));
  }
  if (prefix != kSrunPrefix) return {};
  for (const Variable& variable : kOnlySrun) DIVVY_CHECK(apply(variable, std::string(variable.name)));
  return {};
}

namespace {

/// The only option about nodes that Slurm passes on from one component to the next.
constexpr std::array<std::string_view, 1> kHandedOn = {"exclude"};

Status SettleComponents(JobSpec& spec) {
  for (std::size_t number = 1; number < spec.request.components(); ++number) {
    JobSpec component = SpecOfComponent(spec, number);
    for (const std::string_view option : kHandedOn) {
      const auto value = slurm::Value(spec, option);
      if (value && !slurm::Value(component, option)) slurm::Keep(component, option, *value);
    }
    if (const Status settled = slurm::Settle(component); !settled)
      return InvalidArgument("component " + std::to_string(number) + ": " + settled.error().message);
    DIVVY_CHECK(TakeComponent(std::move(component), number, spec));
  }
  return {};
}

}  // namespace

bool BeginsComponent(const SlurmLine& line) {
  return !line.words.empty() && (line.words.front() == "hetjob" || line.words.front() == "packjob");
}

Status FinishSlurm(JobSpec& spec) {
  const auto given = [&](std::string_view option) { return slurm::Value(spec, option).has_value(); };
  if (given("hint") && (given("ntasks-per-core") || given("threads-per-core") || given("extra-node-info")))
    AddNote(spec, slurm::kHintExcludes);
  DIVVY_CHECK(slurm::Settle(spec));
  DIVVY_CHECK(SettleComponents(spec));
  const std::int64_t priority = slurm::Number(spec, "priority").value_or(0) - slurm::Number(spec, "nice").value_or(0);
  if (slurm::Value(spec, "priority") || slurm::Value(spec, "nice")) {
    // The range of priorities in Slurm is larger than in divvy, so the value is clamped.
    spec.priority = static_cast<int>(std::clamp<std::int64_t>(priority, -kMostPriority, kMostPriority));
  }
  constexpr std::string_view kPlain = "slurm-%j.out";
  constexpr std::string_view kArray = "slurm-%A_%a.out";
  const bool is_default = spec.output.empty() || spec.output == kPlain || spec.output == kArray;
  if (is_default && !spec.is_foreground) spec.output = spec.array ? kArray : kPlain;
  return {};
}

Status CheckSlurmPlace(const JobSpec& spec) {
  if (const auto beyond = slurm::Value(spec, "beyond")) return InvalidArgument(*beyond);
  for (const Component& one : spec.request.others) {
    if (const auto beyond = one.labels.find(slurm::LabelOf("beyond")); beyond != one.labels.end())
      return InvalidArgument(beyond->second);
  }
  return {};
}

Result<Parsed> ReadSlurmWords(const std::vector<Option>& options, const std::vector<std::string>& words,
                              const ParseContext& around, JobSpec& spec, JobSpec* noted) {
  const ParseRules rules{.stops_at_first_positional = true,
                         .take_unknown = slurm::TakeSiteOptions(noted != nullptr ? *noted : spec, false)};
  return ReadComponents(
      options, words, rules, spec, [&](JobSpec& component) { return SbatchOptions(component, around); },
      [](JobSpec&) -> Status { return {}; });
}

Status ReadSlurmLines(std::string_view text, std::string_view path, const ParseContext& around, JobSpec& spec,
                      const std::vector<std::string>* words) {
  if (words != nullptr && std::ranges::find(*words, "--ignore-pbs") == words->end())
    DIVVY_CHECK(ApplyForeignLines(text, path, around, spec));
  DIVVY_CHECK(ApplySlurmLines(text, path, around, spec));
  DIVVY_CHECK(ApplySbatchEnvironment(around, spec));
  if (words != nullptr) {
    DIVVY_CHECK(ReadSlurmWords(SbatchOptions(spec, around), *words, around, spec));
    DIVVY_CHECK(ApplyTaskHosts(around, false, spec));
    return FinishSlurm(spec);
  }
  NoteLostOrder(around, spec);
  if (auto status = FinishSlurm(spec); !status)
    return InvalidArgument(std::string(path) + ": " + status.error().message);
  return {};
}

namespace {

/// --propagate: keeps only the named limits of the submission (ulimit -S). The job gets its node's values for the
/// others.
void KeepPropagated(JobSpec& spec) {
  const std::string list = ToLower(slurm::Value(spec, "propagate").value_or(""));
  const std::vector<std::string_view> names = Split(list, ',');
  if (list.empty() || std::ranges::find(names, "all") != names.end()) return;
  std::erase_if(spec.capture.limits,
                [&](const auto& limit) { return std::ranges::find(names, limit.first) == names.end(); });
}

}  // namespace

void FitTimeLimit(JobSpec& spec, Time now) {
  if (!slurm::Value(spec, "time-min") || spec.end_by == kNoTime) return;
  const Duration room = std::chrono::floor<std::chrono::minutes>(spec.end_by - std::max(now, spec.begin));
  if (spec.time_limit >= room) spec.time_limit = Duration(0);
}

void CompleteSlurm(JobSpec& spec, std::optional<int> gpus_of_server) {
  if (spec.dialect != Dialect::kSlurm) return;
  KeepPropagated(spec);
  if (slurm::Value(spec, "exclusive") && gpus_of_server) {
    spec.request.gpus = *gpus_of_server;
    spec.request.short_nodes = 0;
    spec.request.max_gpus = 0;
    const std::int64_t cpus = slurm::Number(spec, "cpus-per-gpu").value_or(0) * *gpus_of_server;
    spec.request.cpus =
        static_cast<int>(std::max<std::int64_t>(spec.request.cpus, std::min<std::int64_t>(cpus, 1 << 30)));
  }
  for (Component& one : spec.request.others) {
    if (!gpus_of_server || !one.labels.contains(slurm::LabelOf("exclusive"))) continue;
    one.gpus = *gpus_of_server;
    one.short_nodes = 0;
  }
  std::vector<std::string>& environment = spec.capture.environment;
  environment = ScrubInherited(std::move(environment));
  CompleteCapture(spec);
}

}  // namespace divvy::dialect
