// Starting this executable again as a process that stays: the daemon, or an agent.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// Becomes it. Returns, with an exit code, only when that fails.
int StartInPlace(std::vector<std::string> arguments);
/// Settings that only root may give to the launcher. An empty one leaves what the launcher has.
struct LauncherWishes {
  std::string emulate;          // The description of stand-in GPUs, as of `divvy up --emulate`.
  std::string emulate_as;       // The node whose name makes the UUIDs of stand-in GPUs unique.
  std::string controllers_key;  // The public key of the controller's launcher (TokenLine::launcher_key), as text.
};
/// Starts the machine's launcher where none serves, which makes ready what the machine's daemon or agent needs.
/// Requires: root.
Status StartLauncher(const LauncherWishes& wishes = {});
/// Starts the launcher as StartLauncher does, and then makes this process, which is root's, one of user divvy's for the
/// machine's daemon or agent, without root's terminal: where there is one, this returns in a child of the process,
/// which stays for the terminal and ends as the child does. Does nothing where it is user divvy's already, as units
/// start it. kPermissionDenied for any other user. `what`: "daemon" or "agent".
Status LeaveRootToLauncher(const std::string& what, const LauncherWishes& wishes);
/// In the background, in a session of its own, with "--detached" behind its arguments. Fine when it said "ready"; else
/// what it said instead. `who`: "the daemon", for errors.
Status StartDetached(std::vector<std::string> arguments, const std::string& who);

}  // namespace divvy::cli
