// Shared parts of Slurm's commands: errors, --help and --version, and data about the server.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/client/api.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "dialect/options/options.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// Prints "sbatch: error: MESSAGE" to stderr and returns 1, Slurm's exit code for every error.
int FailAs(std::string_view program, std::string_view message);
/// Like FailAs with a message, for an error that the daemon returned. kNotFound becomes "Invalid job id specified",
/// which scripts look for.
int FailAs(std::string_view program, const Error& error);

/// Returns why an action on a job failed, in Slurm's wording if Slurm has a message for it.
std::string RefusalOf(const wire::ActionResult& result);

/// The Slurm release that these commands imitate and report as their version.
inline constexpr std::string_view kVersion = "slurm 22.05.8";
/// Prints the line of `scontrol version`. Returns the exit code.
int PrintVersion();
/// How long Slurm lists an ended job (its MinJobAge), in seconds.
inline constexpr double kMinJobAgeS = 300;

/// Replaces uids among `users` with user names ("0" -> "root"). Does nothing if the daemon is on another machine, which
/// may have other users.
void NameUsers(std::vector<std::string>& users);
/// True if this machine knows the user, by name or number. Always true if the daemon is on another machine.
bool MayBeUser(const std::string& user);

/// Handles --help, --usage and --version. Returns true if it printed one of them. `usage`: the text after "Usage: ".
bool Greets(std::string_view program, std::string_view usage, const std::vector<dialect::Option>& options,
            const std::vector<std::string>& words);

/// For the option -v of listings: prints to stderr how the options were parsed. `interval` is the value of --iterate.
void PrintOptions(const std::string& interval,
                  const std::vector<std::pair<std::string, std::vector<std::string>>>& lists);

/// "Sat Nov 21 08:00:00 2026" with a line break: printed above long or repeated listings.
std::string DateLine();
/// Sleeps for the seconds of --iterate. Returns false at once if --iterate was not given, so that the listing is
/// printed only once.
bool WaitForNextRound(const std::string& seconds);

/// Data about this server, for listings.
Scene SceneOfServer();
/// Like SceneOfServer, for a listing of `jobs`. If a job is on another node, or the caller is on another machine, the
/// controller's machine is shown by its node name.
Scene SceneOf(Api& api, const std::vector<wire::JobView>& jobs);
std::string Hostname();
/// The caller's user name.
std::string CallerName();

/// Entries for an option table: a flag, a text, or a list that may be given several times.
dialect::Option Flag(std::string_view name, char letter, std::string_view help, bool& flag);
dialect::Option Text(std::string_view name, char letter, std::string_view value_name, std::string_view help,
                     std::string& text);
dialect::Option List(std::string_view name, char letter, std::string_view value_name, std::string_view help,
                     std::vector<std::string>& list);
/// Returns an option that is accepted but has no effect on a single server.
dialect::Option Ignored(std::string_view name, char letter, dialect::Takes takes);

/// An environment variable that sets an option ("SQUEUE_USERS", "user"). A flag counts if the variable exists.
struct EnvironmentOption {
  std::string_view variable;
  std::string_view option;
  bool is_flag = false;
};
/// Applies the variables that are set. Parse the command line into separate flags, which must override these.
Status ReadEnvironment(const std::vector<dialect::Option>& options, std::span<const EnvironmentOption> variables);
/// Sets `wanted`, a value from the command line, to `fallback`, the value from the environment, if `wanted` is empty.
template <typename T>
void OrElse(T& wanted, const T& fallback) {
  if (wanted.empty()) wanted = fallback;
}

/// Splits "17,18_[1-3,5],19" into ids; commas inside brackets do not separate. Refuses invalid ids.
Result<std::vector<std::string>> SplitJobIds(std::string_view text);
/// Translates a list of Slurm states to divvy's. Errors have squeue's wording.
Result<std::vector<std::string>> ReadStates(const std::vector<std::string>& slurm_states);

}  // namespace divvy::cli::slurm
