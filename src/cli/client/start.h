// Starting this executable again as a process that stays: the daemon, or an agent.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// Becomes it. Returns, with an exit code, only when that fails.
int StartInPlace(std::vector<std::string> arguments);
/// What the launcher makes ready besides; each may be empty.
struct LauncherWishes {
  std::string emulate;          // Stand-in GPUs,
  std::string emulate_as;       // and the node whose own their UUIDs are.
  std::string controllers_key;  // Of the launcher on the controller's machine (TokenLine::launcher_key).
};
/// Starts the machine's launcher where none serves, which makes ready what the machine's daemon or agent needs.
/// Requires: root.
Status StartLauncher(const LauncherWishes& wishes = {});
/// For the machine's daemon or agent, as root: the same, and becomes user divvy. Fine for that user itself, as whom a
/// unit starts it; fails for any other. `what`: "daemon" or "agent".
Status LeaveRootToLauncher(const std::string& what, const LauncherWishes& wishes);
/// In the background, in a session of its own, with "--detached" behind its arguments. Fine when it said "ready"; else
/// what it said instead. `who`: "the daemon", for errors.
Status StartDetached(std::vector<std::string> arguments, const std::string& who);

}  // namespace divvy::cli
