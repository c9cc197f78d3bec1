// What stands in a job for somebody outside who starts a step in it, from whichever machine: a process of the job's
// user, in the job's own tree, surroundings and limits, that is the caller of the step there.
//
//   srun --jobid --(step frames: words, environment, input, output)--> controller --> agent --> this --pipes--> srun
//
// It ends with the step, with the job, or when its connection does; the step that it has started ends with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace divvy {

struct InsideOptions {
  std::string file;         // The list of the job's steps.
  bool stops_only = false;  // Steps may be signalled, and none started.
  /// Makes the caller's environment that of a process in the job.
  std::function<void(std::vector<std::string>& environment)> move_inside;
};

/// The whole life of such a process, whose standard input is the connection. Returns its exit code, which nobody hears.
/// Requires: one thread.
int RunInside(const InsideOptions& options);

}  // namespace divvy
