// The plan of a step: what it needs, and its tasks once it has that. Made by the program that runs the step process.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/steps/step_list.h"
#include "model/steps/step_resources.h"
#include "platform/records/step_wire.h"
#include "platform/steps/gang_parts.h"
#include "platform/steps/step_task.h"

namespace divvy {

/// The tasks of a step that has its GPUs.
struct StepTasks {
  std::vector<StepTask> tasks;     // By rank; empty only if the step runs on other nodes alone.
  std::vector<std::size_t> ranks;  // The ranks of these tasks; empty: from 0 on.
  std::vector<StepTaskLine> map;   // By rank; empty if all tasks share everything.
};

/// The plan of a step that also runs on other nodes of the job, or only there.
struct SpreadPlan {
  std::vector<PartPlan> others;  // In the order of the job's nodes.
  std::size_t own_place = 0;     // How many of `others` come before this node.
  bool has_own = true;           // Tasks run on this node as well.
  bool reserves = false;         // It needs exclusive GPUs or cores, so the nodes are requested one after the other.
  std::string layout;            // LayoutText() of the step.
  std::optional<std::size_t> input_rank;  // The rank on another node that reads the caller's input.
  std::array<StepStream, 2> files;  // kFile: output and error of all tasks on other nodes go to a file on this node.
};

struct StepPlan {
  StepNeed need;
  bool is_immediate = false;         // Fails instead of waiting.
  bool has_terminal = false;         // Task 0 gets its own terminal.
  bool kills_on_bad_exit = false;    // The first task that fails ends the others.
  bool outlives_nodes = false;       // Tasks lost with their node do not end the others.
  bool takes_first_failure = false;  // The step's code is that of the first failing task; otherwise the highest.
  bool quits_on_interrupt = false;   // The first Ctrl-C goes to the tasks; otherwise the second.
  bool is_quiet = false;             // Prints no messages about failed tasks.
  Duration time_limit{0};            // From its start until its tasks are ended; 0: no limit of its own.
  Duration wait{0};                  // From the first task's end until the others are ended; 0: indefinitely.
  bool has_labels = false;  // Lines of tasks on other nodes are labelled; tasks here say so themselves (kLabelled).
  std::size_t tasks = 0;    // On all nodes; 0: as many as `make` returns.
  std::optional<SpreadPlan> spread;  // Unset: it runs only here, or is a part called by another node.
  std::string directory;             // Base of relative paths in `spread`.
  std::string name;                  // The job's part of the step's name: "17" in "StepId=17.0".
  // Used for the list of steps.
  std::string command;
  std::string step_name;  // Empty: the program's name.
  // For a job on several nodes: the step's nodes in the job's order, without their GPUs.
  std::vector<StepMachine> machines;
  /// Returns the indices on this node of the GPUs that the step's tasks have here, such as "0,3". `gpus`: positions of
  /// the granted GPUs in the job's list.
  std::function<std::string(const std::vector<std::size_t>& gpus)> gpus_of;
  std::string program;                // Prefix of messages about the step: "srun".
  std::string host;                   // Prefix of messages about its tasks: "box".
  std::string busy;                   // Printed once if it must wait.
  std::vector<std::string> launches;  // Printed behind "launching StepId=17.0" when it starts: its nodes.
  /// Called once, when the step has its GPUs; returns its tasks on this node. `gpus`: positions of these GPUs in the
  /// job's list.
  std::function<Result<StepTasks>(StepNumber, const std::vector<std::size_t>& gpus)> make;
};
/// Makes the plan of a step from a call. On an error the caller prints its message and exits with 1. kUnreachable: this
/// node is not ready to plan the step yet; if the call came from another node, it is planned again soon.
using StepPlanner = std::function<Result<StepPlan>(StepCall&)>;

}  // namespace divvy
