// Starts this executable again as a long-lived process: the daemon, or an agent.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// Replaces this process (exec) with divvy run with `arguments`. Returns, with an exit code, only if that fails.
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
/// agent, and detaches it from root's terminal. If this process has a terminal, the function returns in a child
/// process; the parent keeps the terminal, waits, and ends with the exit code of the child. Does nothing if the process
/// already runs as user divvy, as systemd starts it. Returns kPermissionDenied for any other user. `what`: "daemon" or
/// "agent".
Status LeaveRootToLauncher(const std::string& what, const LauncherWishes& wishes);
/// Starts divvy with `arguments` and "--detached" as a background process in its own session. Returns when that process
/// reports "ready"; otherwise the error contains its message. `who` names the process in errors: "the daemon".
Status StartDetached(std::vector<std::string> arguments, const std::string& who);
/// Waits at most 10 s until process `pid` on this machine has ended and has released its file locks. Its parent need
/// not have reaped it.
void AwaitEnd(pid_t pid);

}  // namespace divvy::cli
