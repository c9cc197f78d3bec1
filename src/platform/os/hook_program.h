// Runs one program to its end, with an input, its own environment and a time limit. Blocks; for a single-threaded
// process that does nothing else. Processes that the program leaves behind are killed, unless `may_leave_processes`
// allows them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

struct HookRun {
  std::vector<std::string> words;        // Path and arguments.
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory;                 // Working directory; "/" is used if it cannot be entered.
  std::string input;
  Duration time_limit = std::chrono::seconds(30);
  bool may_leave_processes = false;  // Processes left after a normal end keep running; after `time_limit` all die.
};
struct HookEnd {
  int code = 0;  // Exit code, or 128 + signal number, as in a shell.
  bool was_too_slow = false;
  std::string output;  // The last 400 bytes of standard output and standard error together.
};
/// Runs the program and returns how it ended. Errors: kNotFound if the program does not exist, kPermissionDenied if it
/// cannot be executed.
Result<HookEnd> RunHook(const HookRun& run);

struct HookUser {
  std::string name;
  std::string home;
  std::string shell;
};
/// Makes this process run as user `name`, with only that user's groups and rights. Fails if the process may not switch
/// to the user, if there is no such user, or if the user's number differs from `uid` (not checked if `uid` is
/// negative). Changes nothing if the process already runs as that user.
Result<HookUser> BecomeUser(const std::string& name, std::int64_t uid);

}  // namespace divvy
