// Starting this executable again as a process that stays: the daemon, or an agent.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// Becomes it. Returns, with an exit code, only when that fails.
int StartInPlace(std::vector<std::string> arguments);
/// Starts the machine's launcher where none serves, which makes ready what the machine's daemon needs. Requires: root.
/// `emulate`: stand-in GPUs, or empty.
Status StartLauncher(const std::string& emulate);
/// The same, and becomes the daemon's user.
Status LeaveRootToLauncher(const std::string& emulate);
/// We are the user of the machine's daemon, as its unit starts it.
bool IsDaemonUser();
/// In the background, in a session of its own, with "--detached" behind its arguments. Fine when it said "ready"; else
/// what it said instead. `who`: "the daemon", for errors.
Status StartDetached(std::vector<std::string> arguments, const std::string& who);

}  // namespace divvy::cli
