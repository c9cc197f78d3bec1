// Starting one task of a step: a child of the step process, in a process group of its own, with its caller's limits
// and streams, that ends when the step process does.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "platform/records/step_wire.h"

namespace divvy {

/// Where a task's stream goes.
struct StepStream {
  enum class Kind {
    kCaller,    // Where the caller's goes.
    kNothing,   // /dev/null.
    kFile,      // `path`, from the task's directory on.
    kLabelled,  // To the caller, each line with the task's number.
    kOutput,    // Standard error alone: where standard output goes.
  };
  Kind kind = Kind::kCaller;
  std::string path;
  bool truncates = false;  // Else appends. Of output alone.
};

struct StepTask {
  std::vector<std::string> command;      // argv; found through the PATH in `environment`.
  std::vector<std::string> environment;  // NAME=value, all of it. SLURM_TASK_PID is added.
  std::string directory;                 // Absolute.
  std::array<StepStream, 3> streams;
  std::vector<int> cores;  // Ascending; empty: the caller's.
};

struct StartedTask {
  pid_t pid = -1;        // -1: it could not be started.
  std::string failure;   // Why, in one line.
  int failure_code = 0;  // 127: no such program; 126: one that cannot be executed; 1: anything else.
};

/// Returns when the program has been executed or could not be. `pipes`: the writing ends for labelled streams, -1
/// where there is none. `terminal`: the slave side of one that takes all three streams; -1: none. Requires: one
/// thread, all signals blocked, 0, 1 and 2 open.
StartedTask StartStepTask(const StepTask& task, const StepCall& call, const std::array<int, 3>& pipes, int terminal);

}  // namespace divvy
