// Whoever starts a step inside a job: hands words, environment and its three streams to the job's step process, passes
// signals on, and ends with the step's exit code. The tasks write to the caller's own streams, so there is nothing to
// copy, but for labels, a terminal, and tasks on other machines.
//
// It costs less than the task that it starts: of a whole start of this executable (1 ms of CPU here) two thirds are
// constructors that a step needs none of, so main.cc calls it before them. It therefore uses nothing but the kernel,
// the C library and the heap: no streams, no locale, no exceptions.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace divvy {

struct StepCaller {
  std::string socket;                  // Where the job's step process listens.
  std::span<const char* const> words;  // From argv[0] on.
  const char* const* environment = nullptr;
  std::string program;           // In messages: "srun".
  bool asks_interrupts = false;  // Slurm's Ctrl-C: the first one tells what runs, the second ends it.
  /// A connection to what stands for us in a job on another machine (platform/steps/step_inside.h), in place of
  /// `socket`: input and output go over it. It stays the caller's. -1: the job runs here.
  int far = -1;
  bool has_terminal = false;  // With `far`: ours is to be the step's, raw and in its size.
};

/// Returns the step's exit code; nothing when nobody listens there. Every signal that it passes on is blocked in
/// between.
std::optional<int> CallStep(const StepCaller& caller);

/// Signal `signal` to step `step` of the job whose step process listens at `socket`. 0 when it was reached, 1 when
/// there is no such step (which it says), nothing when nobody listens.
std::optional<int> StopStep(const std::string& socket, int step, int signal);
/// The same over a connection to such a process, or to what stands for us there (StepCaller::far).
int StopStepAt(int connection, int step, int signal);

}  // namespace divvy
