// divvy run, submit, explain: parse words into a JobSpec, with the same option tables as script lines.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/progress_indicator.h"
#include "cli/jobs/foreground.h"
#include "cli/shims/slurm_look/slurm_refusals.h"
#include "cli/steps/steps.h"
#include "dialect/options/components.h"
#include "dialect/options/container_options.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/task_options.h"
#include "dialect/valohai/valohai.h"
#include "wire/messages/codec.h"

namespace divvy::cli {
namespace {

using dialect::Option;

struct SubmitFlags {
  bool is_quiet = false;
  bool is_json = false;
  bool is_dry_run = false;
  bool waits = false;
  bool reads_metrics = false;  // divvy run: read metrics even in output that would not pass through us.
  std::string key;             // divvy submit: see wire::SubmitRequest.
  bool is_job = false;         // divvy run inside a job: submit a separate job, not a step.
};

std::vector<Option> FlagTable(SubmitFlags& flags, bool is_run) {
  std::vector<Option> table;
  if (!is_run) {
    table.push_back(Option::Flag("quiet", 'q', "Print only the job id", dialect::Sets(flags.is_quiet), {"parsable"}));
    table.push_back(Option::Flag("json", "Print the answer as JSON", dialect::Sets(flags.is_json)));
    table.push_back(
        Option::Value("key", "TEXT",
                      "Repeat a submission safely: within a day, the same key submits nothing and returns the same job",
                      [&flags](std::string_view value) -> Status {
                        const bool is_plain = std::ranges::all_of(value, [](char c) {
                          return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
                        });
                        if (!is_plain || value.empty() || value.size() > 100)
                          return InvalidArgument("write 1 to 100 letters, digits, '.', '_' and '-'");
                        flags.key = value;
                        return {};
                      }));
    table.push_back(
        Option::Flag("wait", 'w', "Wait until the job has ended and return its exit code", dialect::Sets(flags.waits)));
  }
  if (is_run) {
    table.push_back(Option::Flag("metrics",
                                 "Record output lines that are JSON objects as metrics, as for a batch job; the output "
                                 "is then a pipe, even on a terminal (not needed with --pty or on other nodes)",
                                 dialect::Sets(flags.reads_metrics)));
    table.push_back(
        Option::Flag("as-job", "Inside a job: submit a separate job instead of a step", dialect::Sets(flags.is_job)));
  }
  table.push_back(Option::Flag("dry-run", "Check the request and print how it is read, without submitting it",
                               dialect::Sets(flags.is_dry_run)));
  return table;
}

bool HasScriptsName(std::string_view path) {
  return path.ends_with(".sh") || path.ends_with(".sbatch") || path.ends_with(".slurm");
}

bool BeginsWithInterpreter(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return false;
  char start[2] = {0, 0};
  const bool has_shebang = std::fread(start, 1, 2, file) == 2 && start[0] == '#' && start[1] == '!';
  std::fclose(file);
  return has_shebang;
}

bool IsOnPath(const std::string& word) {
  const char* path = std::getenv("PATH");
  if (path == nullptr || word.find('/') != std::string::npos) return false;
  return std::ranges::any_of(Split(path, ':'), [&](std::string_view directory) {
    return ::access((std::string(directory) + "/" + word).c_str(), X_OK) == 0;
  });
}

/// The usual interpreter for a file with that extension.
std::string_view InterpreterFor(std::string_view path) {
  constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
      {".py", "python3"}, {".R", "Rscript"}, {".r", "Rscript"}, {".jl", "julia"},
      {".pl", "perl"},    {".rb", "ruby"},   {".js", "node"},   {".lua", "lua"}};
  for (const auto& [ending, program] : kKnown) {
    if (path.ends_with(ending)) return program;
  }
  return "bash";
}

enum class Named { kCommand, kScript };

/// Interprets the first word of a request as a path or a program, for submit, run and explain. A word that cannot be
/// run is refused at submission, rather than failing in the job's log.
Result<Named> FindNamed(const std::string& word, std::string_view verb, const dialect::ParseContext& around) {
  struct stat status {};
  const bool is_there = ::stat(word.c_str(), &status) == 0;
  const bool is_file = is_there && S_ISREG(status.st_mode);
  const bool has_slash = word.find('/') != std::string::npos;
  if (is_there && S_ISDIR(status.st_mode) && has_slash)
    return InvalidArgument("'" + word + "' is a directory; give a command or a script");
  if (is_file && (HasScriptsName(word) || BeginsWithInterpreter(word))) return Named::kScript;
  if (IsOnPath(word)) return Named::kCommand;
  if (!is_there && HasScriptsName(word))
    return NotFound("script not found: '" + word + "'" + (word.front() == '/' ? "" : " in " + around.directory));
  if (!is_file) return Named::kCommand;
  const std::string command = "divvy " + std::string(verb) + " ";
  const bool is_executable = ::access(word.c_str(), X_OK) == 0;
  if (is_executable && has_slash) return Named::kCommand;
  if (is_executable) {
    return InvalidArgument(
        "'" + word + "' is in this directory, but a name without '/' is searched only in PATH; write: " + command +
        "./" + word);
  }
  return InvalidArgument("'" + word + "' has no #! line that names its interpreter; write: " + command + "-- " +
                         std::string(InterpreterFor(word)) + " " + word);
}

/// Refuses a quoted command line: it is one word, and not a program's name.
Status CheckIsNoLine(const std::string& word, std::string_view verb) {
  if (word.find(' ') == std::string::npos || word.front() == '/' || ::access(word.c_str(), F_OK) == 0 || IsOnPath(word))
    return {};
  const std::string command = "divvy " + std::string(verb) + " ";
  return InvalidArgument("there is no program '" + word + "'; remove the quotes: " + command + word +
                         "; or run it with a shell: " + command + "-- sh -c " + ShellQuote(word));
}

Result<std::string> ReadStdin() {
  std::string text;
  char buffer[65536];
  ssize_t got = 0;
  while ((got = ::read(STDIN_FILENO, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<std::size_t>(got));
  if (text.empty()) return InvalidArgument("the script on standard input is empty");
  return text;
}

/// Adds a note for braces around a word that no --param names. They stay unchanged, but are usually a mistake in a
/// sweep.
void NoteUnknownParameters(JobSpec& spec) {
  if (spec.parameters.empty()) return;
  const auto is_name = [](std::string_view word) {
    const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) == 0 &&
           std::ranges::all_of(word, is_letter);
  };
  std::vector<std::string> words = spec.command;
  words.insert(words.end(), spec.arguments.begin(), spec.arguments.end());
  for (const std::string& word : words) {
    for (auto open = word.find('{'); open != std::string::npos; open = word.find('{', open + 1)) {
      const auto close = std::min(word.find('}', open), word.size());
      const std::string name = word.substr(open + 1, close - open - 1);
      const bool is_shells = open > 0 && word[open - 1] == '$';
      if (close == word.size() || is_shells || !is_name(name)) continue;
      if (std::ranges::find(spec.parameters, name, &Parameter::name) == spec.parameters.end())
        spec.notes.push_back("{" + name + "} is not replaced, because no --param has that name");
    }
  }
}

struct Request {
  JobSpec spec;
  SubmitFlags flags;
};

/// If the command line names a script, parses the command line twice: first to find the script, and again after the
/// script's own option lines, so that the command line takes precedence.
Result<Request> ReadRequest(const std::vector<std::string>& words, bool is_run) {
  const dialect::ParseContext around = CallerParseContext();
  const dialect::ParseRules rules{true, true, false};
  Request request;
  const auto parse = [&]() -> Result<dialect::Parsed> {
    std::vector<Option> table = dialect::JobOptions(request.spec, around);
    for (Option& option : FlagTable(request.flags, is_run)) table.push_back(std::move(option));
    return dialect::ReadComponents(
        table, words, rules, request.spec, [&](JobSpec& component) { return dialect::JobOptions(component, around); },
        [](JobSpec& component) -> Status {
          if (component == JobSpec()) {
            return InvalidArgument(
                "there are no options after a ':'; give that component's resources (--gpus, --cpus, --nodes, ...), or "
                "omit the ':'");
          }
          dialect::CompleteTasks(component);
          dialect::CompletePortion(component);
          return dialect::CheckTasks(component);
        });
  };
  DIVVY_TRY(dialect::Parsed parsed, parse());
  std::vector<std::string> rest = std::move(parsed.positional);
  const bool may_be_script = !parsed.saw_dashes || !rest.empty();
  rest.insert(rest.end(), parsed.after_dashes.begin(), parsed.after_dashes.end());
  if (rest.empty())
    return InvalidArgument(std::string("nothing to run; write: divvy ") + (is_run ? "run" : "submit") +
                           " [OPTIONS] COMMAND... (or a script, or - for standard input)");
  JobSpec& spec = request.spec;
  const bool is_stdin = !is_run && may_be_script && rest.front() == "-";
  const std::string_view verb = is_run ? "run" : "submit";
  Named named = is_stdin ? Named::kScript : Named::kCommand;
  DIVVY_TRY(const auto container, dialect::ContainerOf(spec, false));
  // The programs in a container's image are unknown here.
  if (!is_stdin && !container) DIVVY_CHECK(CheckIsNoLine(rest.front(), verb));
  if (!is_stdin && may_be_script) {
    const auto found = FindNamed(rest.front(), verb, around);
    if (!found && !container) return found.error();
    if (found) named = *found;
  }
  if (named == Named::kScript) {
    std::string text;
    if (is_stdin) {
      DIVVY_TRY(text, ReadStdin());
    } else {
      DIVVY_TRY(text, around.read_file(rest.front()));
    }
    spec = JobSpec();
    DIVVY_CHECK(dialect::ReadScript(text, is_stdin ? "stdin" : rest.front(), around, spec));
    DIVVY_TRY(parsed, parse());
    spec.arguments.assign(rest.begin() + 1, rest.end());
  } else {
    spec.command = std::move(rest);
  }
  spec.directory = spec.directory.empty() ? around.directory : spec.directory;
  dialect::CompleteTasks(spec);
  dialect::CompletePortion(spec);
  NoteUnknownParameters(spec);
  return request;
}

std::vector<Option> OptionsFor(bool is_run) {
  static JobSpec scratch_spec;
  static SubmitFlags scratch_flags;
  std::vector<Option> table = dialect::JobOptions(scratch_spec, dialect::ParseContext());
  for (Option& option : table) {
    // A foreground job cannot be an array, but often has a terminal; so these two options are listed under other
    // headings.
    if (is_run && option.name == "array") option.group = dialect::OptionGroup::kArraysAndSweeps;
    if (is_run && option.name == "pty") option.group = dialect::OptionGroup::kMostUsed;
  }
  for (Option& option : FlagTable(scratch_flags, is_run)) {
    option.group = dialect::OptionGroup::kOther;
    table.push_back(std::move(option));
  }
  return table;
}

/// Gives the daemon's refusal a subject, which a reason such as "asks for 9 GPUs, but ..." does not have.
Error WithSubject(Error refusal) {
  if (refusal.message.starts_with("asks for ")) refusal.message.insert(0, "the job ");
  return refusal;
}

/// Asks the daemon whether it would accept the job, and returns its notes. Calls `on_absent` when no daemon answers.
Result<std::vector<std::string>> AskWhetherTaken(JobSpec spec, const std::function<void(const Error&)>& on_absent) {
  DIVVY_CHECK(dialect::CheckComplete(spec));
  auto api = Api::Connect();
  if (!api) {
    on_absent(api.error());
    return spec.notes;
  }
  DIVVY_CHECK(FinishSpec(spec, *api));
  const auto answer = api->Raw("POST", "/v1/jobs", "{\"is_test\":true,\"spec\":" + wire::EncodeChanged(spec) + "}");
  if (!answer) return answer.error();
  DIVVY_TRY(const auto decoded, wire::Decode<wire::SubmitAnswer>(*answer));
  return decoded.notes;
}

/// --dry-run: prints how the request was parsed, if the daemon would accept it.
int PrintRequest(std::string_view verb, const JobSpec& spec) {
  const auto taken = AskWhetherTaken(
      spec, [](const Error& why) { Note("could not check whether the daemon would accept the job: " + why.message); });
  if (!taken) return Fail(WithSubject(taken.error()));
  std::printf("%s: %s\n", std::string(verb).c_str(), dialect::Summarise(spec).c_str());
  for (const std::string& note : *taken) Note(note);
  return 0;
}

/// Asks the daemon, if there is one, to check a script without syntax errors. Errors use the words of the script's
/// dialect, as its own command (sbatch) would.
Status CheckScriptIsTaken(const std::string& text, const std::string& name, const dialect::ParseContext& around) {
  JobSpec spec;
  DIVVY_CHECK(dialect::ReadScript(text, name, around, spec));
  dialect::CompleteTasks(spec);
  dialect::CompletePortion(spec);
  if (spec.directory.empty()) spec.directory = around.directory;
  auto taken = AskWhetherTaken(spec, [](const Error&) {});
  if (taken) return {};
  if (spec.dialect == Dialect::kSlurm) taken.error().message = slurm::WithSlurmsOptions(taken.error().message, spec);
  return taken.error();
}

}  // namespace

std::vector<Option> SubmitOptions() { return OptionsFor(false); }
std::vector<Option> RunOptions() { return OptionsFor(true); }

int SubmitMain(const std::vector<std::string>& words) {
  DIVVY_TRY_OR_FAIL(auto request, ReadRequest(words, false));
  const SubmitFlags flags = request.flags;
  if (flags.is_dry_run) return PrintRequest("would submit", request.spec);
  const auto answer = SubmitJob(std::move(request.spec), flags.key);
  if (!answer) return Fail(WithSubject(answer.error()));
  const std::string id = ToString(answer->id);
  if (flags.is_json) {
    std::printf("{\"id\":%s,\"count\":%lld,\"state\":\"%s\"}\n", id.c_str(), static_cast<long long>(answer->count),
                answer->state.c_str());
  } else if (flags.is_quiet) {
    std::printf("%s\n", id.c_str());
  } else if (answer->count > 1) {
    std::printf("array %s: %s\n", id.c_str(), answer->summary.c_str());
  } else {
    std::printf("job %s %s: %s\n", id.c_str(), answer->state.c_str(), answer->summary.c_str());
  }
  if (!flags.waits) return 0;
  std::fflush(stdout);
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  std::optional<ProgressIndicator> progress(std::in_place, "waiting for job " + id + " to end");
  const auto end = api.Wait(id, {}, [&] { TellDaemonWent(id); });
  progress.reset();
  if (!end) return Fail(end.error());
  return end->state == "succeeded" ? 0 : end->exit_code != 0 ? static_cast<int>(end->exit_code) : 1;
}

int RunMain(const std::vector<std::string>& words) {
  auto request = ReadRequest(words, true);
  const bool is_inside = std::getenv("DIVVY_STEPS") != nullptr;
  if (is_inside && request && request->flags.reads_metrics && !request->flags.is_job)
    return Fail(
        InvalidArgument("the output of a step is part of its job's output, which is already read for metrics; omit "
                        "--metrics, or write --as-job"));
  // The step process parses the words of a step again and reports their errors.
  if (is_inside && (!request || (!request->flags.is_job && !request->flags.is_dry_run))) return RunInStep("run", words);
  if (!request) return Fail(request.error());
  if (request->flags.is_dry_run) return PrintRequest("would run", request->spec);
  Voice voice;
  voice.carries_output = request->flags.reads_metrics;
  voice.refuse = [](const Error& refusal) { return Fail(WithSubject(refusal)); };
  return RunForeground(std::move(request->spec), voice);
}

int ExplainMain(const std::vector<std::string>& words) {
  if (words.size() != 1)
    return Fail(InvalidArgument("name one script: divvy explain SCRIPT (or valohai.yaml, or - for standard input)"));
  const dialect::ParseContext around = CallerParseContext();
  DIVVY_TRY_OR_FAIL(auto text, words[0] == "-" ? ReadStdin() : around.read_file(words[0]));
  const bool is_yaml = words[0].ends_with(".yaml") || words[0].ends_with(".yml");
  // A pipe, such as bash's <(...), is read like standard input.
  struct stat status {};
  const bool is_pipe = ::stat(words[0].c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  if (words[0] != "-" && !is_yaml && !is_pipe) {
    const auto named = FindNamed(words[0], "submit", around);
    if (!named) return Fail(named.error());
    if (*named == Named::kCommand)
      return Fail(InvalidArgument("'" + words[0] +
                                  "' is a program, not a script, so there are no options to explain; divvy submit "
                                  "runs it as it is"));
  }
  const dialect::ScriptExplanation explanation =
      is_yaml ? dialect::ExplainValohai(text, words[0]) : dialect::ExplainScript(text, words[0], around);
  std::fputs(explanation.text.c_str(), stdout);
  if (explanation.had_errors || is_yaml) return explanation.had_errors ? 1 : 0;
  std::fflush(stdout);
  if (const Status taken = CheckScriptIsTaken(text, words[0], around); !taken) {
    std::fprintf(stderr, "divvy: the job would be rejected here: %s\n", WithSubject(taken.error()).message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace divvy::cli
