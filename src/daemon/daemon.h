// The daemon process: reads its configuration, recovers its state and serves until it is told to stop.
#pragma once

#include <string>
#include <vector>

namespace divvy {

/// Runs the daemon. `words` are the arguments after "internal-daemon". Returns the process's exit code. With
/// --detached, standard error is a pipe to the command that waits for the start. The daemon writes "ready" or one line
/// with an error there, and then redirects standard error to the log file.
int DaemonMain(const std::vector<std::string>& words);

}  // namespace divvy
