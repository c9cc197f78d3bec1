// The daemon's process: reads its configuration, recovers, serves until it is told to end.
#pragma once

#include <string>
#include <vector>

namespace divvy {

/// The words after "internal-daemon". The answer is the process's exit code. With --detached, standard error is a pipe
/// to the command that waits: it gets "ready" or one line that says what is wrong, and is then replaced by the log
/// file.
int DaemonMain(const std::vector<std::string>& words);

}  // namespace divvy
