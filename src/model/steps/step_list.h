// The steps of a job as a small file: one line for each change of a step; the latest line of a step wins. The job's
// step process writes it. Readers must not trust the content: the job's user can write the file.
//
//   NUMBER \t STATE \t TASKS \t GPUS \t STARTED \t ENDED \t CODE \t MAP \t COMMAND \t NAME \t MACHINES \t CANCELLED
//   \t LIMIT
//
// Times are nanoseconds since 1970. GPUS are the indices on the node, "0,3". MAP has "GPU+GPU:CORES:RANK:SEAT" for each
// task, separated by blanks. SEAT is left out if the job is on one node. RANK is also left out if the tasks are listed
// in rank order from 0 on. MAP is empty if all tasks share everything. NAME is the step's name, or empty. MACHINES, for
// a job on several nodes, has "SEAT:TASKS:GPU,GPU" for each node with tasks, "0-3:2:0,1" for equal ones. CANCELLED is 1
// or empty. LIMIT is the step's own time limit in seconds, or empty. Readers accept lines without the last four fields,
// and ignore additional ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/gpus/gpu.h"
#include "model/steps/step_resources.h"

namespace divvy {

enum class StepState { kWaiting, kRunning, kEnded };

struct StepTaskLine {
  std::string gpus;   // Indices of its own GPUs, "0+1". Empty: all GPUs of the step.
  std::string cores;  // "0-15". Empty: all cores of the job.
  std::size_t rank = 0;
  std::optional<std::size_t> node_index = std::nullopt;  // Index of its node in the job. Set only if the job has
                                                         // several nodes.

  friend bool operator==(const StepTaskLine&, const StepTaskLine&) = default;
};

/// The resources of a step on one node of its job.
struct StepMachine {
  std::size_t node_index = 0;  // Index of the node in the job.
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
  int code = 0;                   // Set once it has ended; 128 + signal when a signal ended it.
  std::vector<StepTaskLine> map;  // By rank.
  std::string command;
  std::string name = {};  // Its given name. Empty: named after its program.
  /// For jobs on several nodes: the nodes with tasks, in the order of their node allocations. Empty: not known, or the
  /// job is on one node.
  std::vector<StepMachine> machines = {};
  bool was_cancelled = false;  // It was cancelled by its number, or ended by its time limit.
  Duration time_limit{0};      // Its own, in whole seconds. 0: none.

  friend bool operator==(const StepLine&, const StepLine&) = default;
};

/// Returns the GPUs and cores of each task of a step, in the format of the field MAP. Empty if it would exceed 24 KiB.
std::string StepMapText(const std::vector<StepTaskLine>& map);
/// Parses the text of StepMapText(). Returns std::nullopt if it is invalid.
std::optional<std::vector<StepTaskLine>> ReadStepMap(std::string_view text);

/// Returns the line about a step in the list of steps, with its line feed. Control characters in the command and the
/// name become blanks, and both are cut at 200 characters. The machines are left out if they would exceed 8 KiB, and
/// the map if it would exceed 24 KiB.
std::string StepLineText(const StepLine& step);

/// Parses a list of steps. Returns the latest line of each step, ascending by step number. Invalid lines are skipped.
std::vector<StepLine> ReadStepList(std::string_view text);

/// Returns a shorter list of steps, for a file that has grown too long: all steps that have not ended, and the last
/// `ended_most` ended ones.
std::string ShortenStepList(std::string_view text, std::size_t ended_most);

/// The text that is stored for the steps of an ended job, in the same format. It has the last 200 steps that were
/// started, or fewer so that it stays below 30 KB. Maps are left out, and commands and names are cut at 80 characters.
/// A step that was still running was cut off by the end of the job.
std::string KeptSteps(const std::vector<StepLine>& steps);

/// Number of steps of a job, from its KeptSteps text: step numbers count from 0.
std::int64_t StepCount(std::string_view kept);

/// The step's name, or the name of its program: "python3" for "/usr/bin/python3 train.py".
std::string StepName(const StepLine& step);

/// For people: "waiting", "running", "ended".
std::string_view StepStateText(StepState state);

}  // namespace divvy
