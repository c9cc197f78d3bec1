// A command of the command line: its words for --help, man pages and completions, and what it does.
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
  std::string_view group;  // Heading in the list: "Jobs", "GPUs", "Daemon", "Other tools".
  /// The options with closures that write nowhere that matters, for --help, man pages and completions.
  std::vector<dialect::Option> (*options)() = nullptr;
  /// What the positional words are, for completions: "job", "script", "command", "gpu", "" (nothing).
  std::string_view completes = "";
  /// The words after the command's name. The answer is the process's exit code.
  int (*run)(const std::vector<std::string>& words) = nullptr;
  bool is_hidden = false;
};

/// Every command, in the order of --help. cli/entry/registry.cc lists them.
const std::vector<Command>& Commands();

/// The command that was meant by `word`, which is none: another tool's word for it, or a slip. Empty: nothing is near.
std::string_view NearestCommand(std::string_view word);

/// Prints "divvy: MESSAGE" to stderr (in red on a terminal) and gives the exit code that belongs to the error: 2 for
/// invalid argument, 3 not found, 4 permission, 5 no daemon, 1 else.
int Fail(const Error& error);
/// --quiet: nothing is printed when all is well.
dialect::Option QuietOption(bool& is_quiet);
/// "divvy: note: ..." to stderr.
void Note(std::string_view message);
/// To stderr: the daemon went, job `id` goes on, and we wait for the next daemon. `is_raw`: on a terminal in raw mode.
void TellDaemonWent(const std::string& id, bool is_raw = false, const std::string& program = "divvy");

/// The uid of the user of this name, or that the name is; nothing when there is no such user.
std::optional<std::int64_t> UserIdOf(const std::string& name);

/// The caller's surroundings for reading job texts: time zone, directory, environment, files; "@" asks the daemon.
dialect::Surroundings CallerSurroundings();
/// A moment as people name one that lies behind them (dialect::ParsePastMoment), in seconds since 1970.
Result<double> AgoOrMoment(std::string_view text);
/// Of this machine, without its domain.
std::string HostName();
/// Environment, umask, limits and directory of this process, into the spec.
void CaptureInto(JobSpec& spec);

class Api;
/// What the text alone cannot say: the surroundings (CaptureInto), what --export leaves of them, and, for whole
/// servers, how many GPUs the daemon has.
Status FinishSpec(JobSpec& spec, Api& api);

/// All GPUs of one machine; where there are several machines, of the one that has the most.
Result<int> GpusOfAMachine(Api& api);

/// Shared ending of every submitting command: submits `spec` (already complete), prints notes to stderr. For foreground
/// jobs runs it on this process's streams (pty, Ctrl-C and window size handled) and gives the job's exit code.
Result<wire::SubmitAnswer> SubmitJob(JobSpec spec);
int RunForeground(JobSpec spec);

}  // namespace divvy::cli
