// The step process of a job: starts steps inside the job at once, without the daemon.
//
//   srun, divvy run --(stream socket: words, environment, three streams)--> step process --vfork--> task 0, 1, 2 ...
//        ^-----------------------------(messages, exit code)--------------------'
//
// The first step of a job starts it. It runs as the job's user in the job's own process tree and session, and is one
// process for all steps of the job on this node. So it needs neither the daemon nor the supervisor: both may be killed
// while steps run. It ends with the job, because the supervisor ends everything that the first process leaves behind.
// Its tasks end with it, however it ends.
//
// A StepPlanner turns a call into tasks. StepResources decides which GPUs a step gets, and which steps wait.
//
// Only processes of its own user may call it. They may belong to another job of that user or to none: a user who may
// end the job may also start a step in it.
//
// Signals that go to the whole job reach this process as well. It does not die of any signal that can be caught,
// because its tasks would die too: it exits when no step is left. A step whose caller goes away is ended.
//
// A job on several nodes has one step process on each, and all of them run a step that spreads. The one where the step
// was called decides which node runs which tasks, and sends the call to the others (platform/records/gang_wire.h),
// which plan their part themselves. It alone makes the decisions: when all nodes have their GPUs the step starts, and a
// failure ends all parts.
//
// `file` (model/steps/step_list.h) lists the steps; `file`.sock is the listening socket. The process holds a lock on
// `file` as long as it lives, so there is at most one.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/host_port.h"
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
  bool takes_first_failure = false;  // The step's code is that of the first failing task; otherwise the highest.
  bool is_quiet = false;             // Prints no messages about failed tasks.
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
  /// Returns the server's indices of the GPUs that its tasks here have, such as "0,3", given the granted places.
  std::function<std::string(const std::vector<std::size_t>& gpus)> gpus_of;
  std::string program;  // Prefix of messages about the step: "srun".
  std::string host;     // Prefix of messages about its tasks: "box".
  std::string busy;     // Printed once if it must wait.
  /// Called once, when the step has its GPUs (indices in the job's list).
  std::function<Result<StepTasks>(StepNumber, const std::vector<std::size_t>& gpus)> make;
};
/// On an error the caller prints its message and ends with 1. kUnreachable: it is too early; a call from another node
/// is planned again soon.
using StepPlanner = std::function<Result<StepPlan>(StepCall&)>;

struct StepServerOptions {
  std::string file;
  std::size_t gpus = 0;  // The number of GPUs of the job.
  int cores = 0;         // The number of cores of the job; 0: not counted.
  StepPlanner planner;
  /// Called when it listens, or if another step process already does. `port`: where it listens for other nodes; 0: not.
  std::function<void(std::uint16_t port)> on_listening;
  Duration idle_most = std::chrono::minutes(10);  // Exits after this time without work.
  // The following are for a job on several nodes. The server then stays, even if idle, until SIGTERM arrives or `file`
  // is removed. Without `file` the job is over, or its node's run directory is gone and nothing else could stop it.
  Duration look_every = std::chrono::seconds(10);          // How often to check that `file` still exists.
  std::function<void(const std::string& why)> on_failure;  // Called if it cannot listen.
  std::string key;                                         // 64 hexadecimal digits; empty: the job is on one node.
  HostPort listen;                                         // Address on which it listens for other nodes; port 0: any.
  std::string version;  // divvy's version, which must be the same on all nodes of a job.
};

/// The step process's main function; returns its exit code. Returns 0 at once if there already is a step process.
/// Requires: one thread, no descriptors except 0, 1 and 2.
int RunStepServer(StepServerOptions options);

/// Returns the socket of the step process of the job with this list of steps.
inline std::string StepSocketOf(const std::string& file) { return file + ".sock"; }

}  // namespace divvy
