// Sets what ps and /proc show of a process that was forked but not executed, and closes its descriptors.
#pragma once

#include <string>

namespace divvy {

/// The command name (/proc/PID/comm) of the process that starts the tasks of a job's steps.
inline constexpr char kStepProcess[] = "divvy-steps";

/// Returns an environment entry that reserves room for a title and a variable. Put it into the environment of a process
/// that will fork others.
std::string TitleRoom();

/// Makes ps and pgrep show `line` as the command line of this process, and only `variable` (NAME=value) as its
/// environment. Both are cut to the available room. Without this a fork shows the title of its parent and would be
/// found by searches for the parent. The strings that `environ` pointed to at the start of this program must not be
/// used any more.
void ShowProcessAs(const std::string& line, const std::string& variable);

/// Closes every descriptor numbered `first` or higher.
void CloseFrom(int first);

}  // namespace divvy
