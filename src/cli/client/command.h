// A command of the command line: its texts for --help, man pages and completions, and its entry point.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/job_options.h"
#include "dialect/options/options.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

struct Example {
  std::string_view command;
  std::string_view meaning;
};

struct Command {
  std::string_view name;     // "submit"
  std::string_view summary;  // One line for the list of commands, no full stop.
  std::string_view usage;    // "divvy submit [OPTIONS] [--] COMMAND... | SCRIPT [ARGS...] | -"
  std::string_view about;    // A paragraph or two; may be empty.
  std::vector<Example> examples;
  std::string_view group;  // Heading in the list: "Jobs", "GPUs and teams", "Nodes", "Reports", "Daemon", "Tools".
  /// Options for --help, man pages and completions. Their closures write to a scratch object.
  std::vector<dialect::Option> (*options)() = nullptr;
  /// The kind of the positional words, for completions: "job", "script", "command", "gpu", "" (none).
  std::string_view completes = "";
  /// Runs the command with the words after its name. Returns the process's exit code.
  int (*run)(const std::vector<std::string>& words) = nullptr;
  bool is_hidden = false;
  bool is_rare = false;  // Only divvy help --all lists it.
};

/// Every command, in the order of --help. cli/entry/registry.cc lists them.
const std::vector<Command>& Commands();

/// Returns the command that the user probably meant by the unknown `word`: a typing error, or another tool's name for
/// it. Returns "" if no command is similar.
std::string_view NearestCommand(std::string_view word);

/// Prints "divvy: MESSAGE" to stderr (in red on a terminal). Returns the exit code for the error: 2 for invalid
/// argument, 3 not found, 4 permission, 5 no daemon, else 1.
int Fail(const Error& error);
/// Like DIVVY_TRY, in a function that returns an exit code: an error is printed (Fail).
#define DIVVY_TRY_OR_FAIL(declaration, expression) \
  DIVVY_TRY_OR_FAIL_(declaration, expression, DIVVY_TRY_NAME_(__LINE__))
#define DIVVY_TRY_OR_FAIL_(declaration, expression, name) \
  auto name = (expression);                               \
  if (!name) return Fail(name.error());                   \
  declaration = *std::move(name)
/// The option --quiet, which sets `is_quiet`: the command prints nothing on success.
dialect::Option QuietOption(bool& is_quiet);
/// Prints "divvy: note: ..." to stderr.
void Note(std::string_view message);
/// Prints to stderr that the connection to the daemon was lost, that job `id` is not affected, and that this command
/// waits for the daemon to return. `is_raw`: the terminal is in raw mode.
void TellDaemonWent(const std::string& id, bool is_raw = false, const std::string& program = "divvy");

/// Returns the uid of the user `name`, which may be a number itself; nullopt if there is no such user.
std::optional<std::int64_t> UserIdOf(const std::string& name);

/// Returns the caller's context for parsing options and job scripts: time zone, directory, environment, files. "@" (the
/// caller's last job) is resolved by the daemon.
dialect::ParseContext CallerParseContext();
/// Parses a moment in the past as users write it (dialect::ParsePastMoment). Returns seconds since 1970.
Result<double> AgoOrMoment(std::string_view text);
/// This machine's name without its domain.
std::string HostName();
/// Copies this process's environment, umask, limits and directory into `spec`.
void CaptureInto(JobSpec& spec);

class Api;
/// Completes `spec` with what its text alone does not contain: the caller's context (CaptureInto) filtered by --export,
/// and, for requests for whole servers, the number of GPUs from the daemon.
Status FinishSpec(JobSpec& spec, Api& api);

/// Returns the number of GPUs of the node that has the most.
Result<int> GpusOfAMachine(Api& api);

/// Submits a complete `spec` and prints the daemon's notes to stderr. Every submitting command ends with this.
/// `key`: see Api::Submit.
Result<wire::SubmitAnswer> SubmitJob(JobSpec spec, const std::string& key = "");
/// Submits `spec` as a foreground job with this process's standard streams, and waits for its end. Handles its pty,
/// Ctrl-C and changes of the window size. Returns the job's exit code.
int RunForeground(JobSpec spec);

}  // namespace divvy::cli
