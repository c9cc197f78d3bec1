// The substitute, inside a job, of an outside caller who starts a step in it from any machine. It is a process of the
// job's user, in the job's process tree, environment and limits, and acts as the caller of the step.
//
//   srun --jobid --(step frames: words, environment, input, output)--> controller --> agent --> this --pipes--> srun
//
// It ends with the step, with the job, or when its connection closes. The step that it started ends with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace divvy {

struct InsideOptions {
  std::string file;         // The list of the job's steps.
  bool stops_only = false;  // Steps may be signalled, but none started.
  /// Changes the caller's environment to that of a process in the job.
  std::function<void(std::vector<std::string>& environment)> move_inside;
};

/// The main function of a process inside a job that acts for a caller outside of it, for example on another node. Its
/// standard input is the connection to the caller. Returns an exit code, which is not used. Requires: one thread.
int RunInside(const InsideOptions& options);

}  // namespace divvy
