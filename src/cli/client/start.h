// Starts this executable again as a long-lived process: the daemon, or an agent.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// Replaces this process with the new one. Returns, with an exit code, only when that fails.
int StartInPlace(std::vector<std::string> arguments);
/// Launcher settings that only root may give. An empty field keeps the launcher's present value.
struct LauncherWishes {
  std::string emulate;          // The description of emulated GPUs, as in `divvy up --emulate`.
  std::string emulate_as;       // The node name that makes the UUIDs of emulated GPUs unique.
  std::string controllers_key;  // The public key of the controller's launcher (TokenLine::launcher_key), as text.
};
/// Starts the machine's launcher if none is running. The launcher prepares what the machine's daemon or agent needs.
/// Requires: root.
Status StartLauncher(const LauncherWishes& wishes = {});
/// Starts the launcher as StartLauncher does, then changes this root process to user divvy, for the machine's daemon or
/// agent, and detaches it from root's terminal. With a terminal, this returns in a child; the parent keeps the terminal
/// and ends as the child does. Does nothing if the process already runs as user divvy, as systemd starts it. Returns
/// kPermissionDenied for any other user. `what`: "daemon" or "agent".
Status LeaveRootToLauncher(const std::string& what, const LauncherWishes& wishes);
/// Starts it in the background, in its own session, with "--detached" appended to its arguments. Succeeds when it
/// reports "ready"; otherwise the error has its message. `who` names it in errors: "the daemon".
Status StartDetached(std::vector<std::string> arguments, const std::string& who);
/// Waits at most 10 s until the process of this machine has ended and has released its locks, whether or not its parent
/// has noticed.
void AwaitEnd(pid_t pid);

}  // namespace divvy::cli
