// The caller of a step inside a job. It sends its arguments, environment and three streams to the job's step process,
// forwards signals, and ends with the step's exit code. The tasks write directly to the caller's streams, so data is
// copied only for labels, a terminal, and tasks on other nodes.
//
// It costs less than the task that it starts. Two thirds of the start of this executable (1 ms of CPU) are constructors
// that a step does not need, so main.cc calls it before them. It therefore uses only the kernel, the C library and the
// heap: no streams, no locale, no exceptions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "platform/records/step_wire.h"

namespace divvy {

struct StepCaller {
  std::string socket;                  // The socket of the job's step process.
  std::span<const char* const> words;  // From argv[0] on.
  const char* const* environment = nullptr;
  std::string program;           // Used in messages, such as "srun".
  bool asks_interrupts = false;  // Slurm's Ctrl-C: the first one lists the running tasks, the second one ends the step.
  /// A connection to our substitute in a job on another node (platform/steps/step_inside.h), used instead of `socket`:
  /// input and output go over it. The caller owns it. -1: the job runs on this node.
  int far = -1;
  bool has_terminal = false;  // With `far`: the step gets a terminal of our size, and ours is set to raw mode.
};

/// Runs a step: sends the call to the job's step process and returns when the step has ended. Returns the step's exit
/// code, or nullopt if no step process listens at the socket. Signals that it forwards to the step are blocked
/// meanwhile.
std::optional<int> CallStep(const StepCaller& caller);

/// A change of a step, also of another caller.
struct StepChange {
  StepWord word = StepWord::kStop;  // kStop: `value` is a signal. kLimit: a time limit in seconds.
  int step = 0;
  std::int64_t value = 0;
};
/// Step processes of earlier releases do not answer changes that they do not know.
inline constexpr int kNoStepAnswer = 2;
/// Changes a step of the job whose step process listens at `socket`. Returns 0 if it was reached, 1 if there is no such
/// step (which it prints), kNoStepAnswer if there is no answer within 10 s, nullopt if no step process listens.
std::optional<int> ChangeStep(const std::string& socket, const StepChange& change);
/// Like ChangeStep, over a connection that is open already: to the step process, or to the process that acts for this
/// one inside a job on another node (StepCaller::far).
int ChangeStepAt(int connection, const StepChange& change);

}  // namespace divvy
