// The steps of a job as a small file tells them: one line for each change of a step, the later line wins. Written by
// the job's step process, read by whoever lists steps. Whoever reads it trusts nothing in it: it is the user's own
// file.
//
//   NUMBER \t STATE \t TASKS \t GPUS \t STARTED \t ENDED \t CODE \t MAP \t COMMAND \t NAME \t MACHINES \t CANCELLED
//
// Times are nanoseconds since 1970; GPUS is the indices on the server, "0,3"; MAP has for each task
// "GPU+GPU:CORES:RANK:SEAT", joined by blanks: without SEAT where the job is on one machine, and without RANK as well
// where the tasks are told in the order of their ranks from 0 on. It is empty where all tasks share all. NAME is what
// it was called, or empty; MACHINES, of a job on several, has "SEAT:TASKS:GPU,GPU" of each that has tasks, "0-3:2:0,1"
// of those that have the same. CANCELLED is 1 or empty. Whoever reads it takes lines without the last three, and leaves
// more fields unread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/gpus/gpu.h"
#include "model/steps/step_book.h"

namespace divvy {

enum class StepState { kWaiting, kRunning, kEnded };

struct StepTaskLine {
  std::string gpus;   // Indices of its own GPUs, "0+1"; empty: all of the step's.
  std::string cores;  // "0-15"; empty: all of the job's.
  std::size_t rank = 0;
  std::optional<std::size_t> seat = std::nullopt;  // Of the job's machines, where it has several.

  friend bool operator==(const StepTaskLine&, const StepTaskLine&) = default;
};

/// What a step has on one machine of its job.
struct StepMachine {
  std::size_t seat = 0;  // Of the job's machines.
  int tasks = 1;
  GpuSet gpus;

  friend bool operator==(const StepMachine&, const StepMachine&) = default;
};

struct StepLine {
  StepNumber number = 0;
  StepState state = StepState::kWaiting;
  int tasks = 1;
  std::string gpus;
  Time started = kNoTime;
  Time ended = kNoTime;
  int code = 0;                   // Once it has ended; 128 + signal when a signal ended it.
  std::vector<StepTaskLine> map;  // By rank.
  std::string command;
  std::string name = {};  // As it was called; empty: by its program.
  /// Of a job on several machines: those where it has tasks, seats ascending. Empty: not known, or it is on one.
  std::vector<StepMachine> machines = {};
  bool was_cancelled = false;  // Somebody ended it, by its number.

  friend bool operator==(const StepLine&, const StepLine&) = default;
};

/// As the list has it; empty where 24 KiB would not be enough to tell it.
std::string StepMapText(const std::vector<StepTaskLine>& map);
/// Nothing where it is none.
std::optional<std::vector<StepTaskLine>> ReadStepMap(std::string_view text);

/// With a line feed. Control characters in the command and the name become blanks, and they are cut at 200 characters;
/// machines of which 8 KiB would not be enough to tell are left out, and so is a map (StepMapText).
std::string StepLineText(const StepLine& step);

/// The last word on each step, ascending; lines that are none are skipped.
std::vector<StepLine> ReadStepList(std::string_view text);

/// The file as it stays when it has grown too long: what has not ended, and the last `ended_most` that have.
std::string ShortenStepList(std::string_view text, std::size_t ended_most);

/// What is kept of an ended job's steps, in the same form: the last 200 of those that ever ran, or fewer where those
/// would be more than 30 KB, without their maps and with 80 characters of their commands and names. One that was still
/// running was cut off by the job's end.
std::string KeptSteps(const std::vector<StepLine>& steps);

/// How many steps a job had, of which these are kept: their numbers count from 0.
std::int64_t StepCount(std::string_view kept);

/// As it was called, or the name of its program: "python3" of "/usr/bin/python3 train.py".
std::string StepName(const StepLine& step);

/// As people read it: "waiting", "running", "ended".
std::string_view StepStateText(StepState state);

}  // namespace divvy
