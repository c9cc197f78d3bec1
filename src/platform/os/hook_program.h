// One program run to its end: with an input, an environment of its own and a limit of time. Blocking, for a process of
// one thread that does nothing else: what the program leaves behind is killed, unless that may stay.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

struct HookRun {
  std::vector<std::string> words;        // Path and arguments.
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory;                 // "/" where it cannot be entered.
  std::string input;
  Duration time_limit = std::chrono::seconds(30);
  bool may_leave_processes = false;  // What still runs once it has ended goes on: nothing does after `time_limit`.
};
struct HookEnd {
  int code = 0;  // As a shell has it: 128 + signal.
  bool was_too_slow = false;
  std::string output;  // The end of what it said, on both streams: 400 bytes at most.
};
/// kNotFound where there is no such program.
Result<HookEnd> RunHook(const HookRun& run);

/// This process is this user from now on, with their groups, and no more than that. Fails where it may not become them,
/// where there is no such user, or where the name has another number than `uid` (unless that is below 0). For the user
/// that it is already: nothing changes.
struct HookUser {
  std::string name;
  std::string home;
  std::string shell;
};
Result<HookUser> BecomeUser(const std::string& name, std::int64_t uid);

}  // namespace divvy
