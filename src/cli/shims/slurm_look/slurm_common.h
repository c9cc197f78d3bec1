// What Slurm's commands have in common here: how they fail, greet, and look up the server.
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

/// "sbatch: error: MESSAGE" to stderr; gives 1, Slurm's exit code for every error.
int FailAs(std::string_view program, std::string_view message);
/// The same for an error of the daemon: what was not found is "Invalid job id specified", as scripts look for.
int FailAs(std::string_view program, const Error& error);

/// What could not be done to a job, in Slurm's words where there are any.
std::string RefusalOf(const wire::ActionResult& result);

/// What programs that ask for Slurm's version are told: the release whose ways these commands have.
inline constexpr std::string_view kVersion = "slurm 22.05.8";
/// The line of `scontrol version`. The exit code.
int PrintVersion();
/// For how long Slurm lists a job that has ended (its MinJobAge), in seconds.
inline constexpr double kMinJobAgeS = 300;

/// Numbers among them become the names of those users ("0" -> "root"). Not of a daemon elsewhere, whose users may be
/// others than this machine's.
void NameUsers(std::vector<std::string>& users);
/// Whether this machine would know such a user, by name or number; true where the daemon is elsewhere.
bool MayBeUser(const std::string& user);

/// --help, --usage, --version: prints and says so. `usage` is the line after "Usage: ".
bool Greets(std::string_view program, std::string_view usage, const std::vector<dialect::Option>& options,
            const std::vector<std::string>& words);

/// "Sat Nov 21 08:00:00 2026" and the end of the line: above long listings and those that repeat.
std::string DateLine();
/// Sleeps for the seconds of --iterate; false without any, when one listing was all.
bool WaitForNextRound(const std::string& seconds);

/// This server, for listings.
Scene SceneOfServer();
/// The same for these jobs: where some are on other machines, or the caller is, the controller's own machine has the
/// name that the others know it by.
Scene SceneOf(Api& api, const std::vector<wire::JobView>& jobs);
std::string Hostname();
/// The name of who calls.
std::string CallerName();

/// The words as an option table keeps them: a flag, a text, a list that may come several times.
dialect::Option Flag(std::string_view name, char letter, std::string_view help, bool& flag);
dialect::Option Text(std::string_view name, char letter, std::string_view value_name, std::string_view help,
                     std::string& text);
dialect::Option List(std::string_view name, char letter, std::string_view value_name, std::string_view help,
                     std::vector<std::string>& list);
/// Read and without meaning on one server.
dialect::Option Ignored(std::string_view name, char letter, dialect::Takes takes);

/// A variable that stands for an option ("SQUEUE_USERS", "user"). A flag counts by being there.
struct EnvironmentOption {
  std::string_view variable;
  std::string_view option;
  bool is_flag = false;
};
/// Applies those that are set. What the command line says must be read into another wish, and win.
Status ReadEnvironment(const std::vector<dialect::Option>& options, std::span<const EnvironmentOption> variables);
/// The command line's list, or else the environment's.
template <typename T>
void OrElse(T& wanted, const T& fallback) {
  if (wanted.empty()) wanted = fallback;
}

/// "17,18_[1-3,5],19" as ids; commas inside brackets do not separate. Refuses what cannot be a job's id.
Result<std::vector<std::string>> SplitJobIds(std::string_view text);
/// Reads a list of Slurm states into divvy's; the message is squeue's.
Result<std::vector<std::string>> ReadStates(const std::vector<std::string>& slurm_states);

}  // namespace divvy::cli::slurm
