// Starting this executable again as a process that stays: the daemon, or an agent.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// Becomes it. Returns, with an exit code, only when that fails.
int StartInPlace(std::vector<std::string> arguments);
/// Starts the machine's launcher where none serves, which makes ready what the machine's daemon needs, and becomes the
/// daemon's user. Requires: root. `emulate`: stand-in GPUs, or empty.
Status LeaveRootToLauncher(const std::string& emulate);
/// In the background, in a session of its own, with "--detached" behind its arguments. Fine when it said "ready"; else
/// what it said instead. `who`: "the daemon", for errors.
Status StartDetached(std::vector<std::string> arguments, const std::string& who);

}  // namespace divvy::cli
