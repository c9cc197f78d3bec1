// Starts one task of a step: a child of the step process in its own process group, with its caller's limits and
// streams. It ends when the step process does.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "platform/records/step_wire.h"

namespace divvy {

/// The target of a task's stream.
struct StepStream {
  enum class Kind {
    kCaller,    // The caller's own stream.
    kNothing,   // /dev/null.
    kFile,      // `path`, relative to the task's directory.
    kLabelled,  // To the caller, with the task's number before each line.
    kOutput,    // For standard error only: the same as standard output.
  };
  Kind kind = Kind::kCaller;
  std::string path;
  bool truncates = false;  // For output only; false: appends.
};

struct StepTask {
  std::vector<std::string> command;      // argv; found through the PATH in `environment`.
  std::vector<std::string> environment;  // The complete environment, NAME=value. SLURM_TASK_PID is added.
  std::string directory;                 // Absolute.
  std::array<StepStream, 3> streams;
  std::vector<int> cores;  // Ascending; empty: the caller's cores.
};

struct StartedTask {
  pid_t pid = -1;        // -1: it could not be started.
  std::string failure;   // The reason of the failure, in one line.
  int failure_code = 0;  // 127: no such program; 126: one that cannot be executed; 1: anything else.
};

/// Starts a task. Returns when its program has been executed or could not be executed. `pipes`: write ends for labelled
/// streams, else -1. `terminal`: slave side of a terminal for all three streams; -1: none. Requires: one thread, all
/// signals blocked, 0, 1 and 2 open.
StartedTask StartStepTask(const StepTask& task, const StepCall& call, const std::array<int, 3>& pipes, int terminal);

}  // namespace divvy
