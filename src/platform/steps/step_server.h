// The step process of a job: starts steps inside the job at once, without asking the daemon.
//
//   srun, divvy run --(stream socket: words, environment, three streams)--> step process --vfork--> task 0, 1, 2 ...
//        ^-----------------------------(what to say, exit code)-----------------'
//
// It is made by the first step of a job, runs as the job's user in the job's own tree and session, and is one process
// for all steps of the job on this machine. So it needs neither the daemon nor the supervisor: both may be killed under
// running steps. It ends with the job, for the supervisor ends whatever the first process leaves; and its tasks end
// with it, however it ends.
//
// What a step means is somebody else's to say (StepPlanner): words go in, tasks come out. Which GPUs it gets, and who
// waits, is StepBook's.
//
// Only its own user's processes are heard. They may be another job's of that user, or none's: whoever may end the job
// may start a step in it.
//
// Signals: those that go to the whole job reach it as well. It never dies of one that can be caught, because its tasks
// would go with it: it leaves when no step is left. A step whose caller goes away is ended.
//
// A job on several machines has one on each, and a step that spreads is run by all of them: the one where it was called
// works out who runs what, hands its words to the others (platform/records/gang_wire.h), which plan their part
// themselves, and is the only one that decides: when all have their GPUs they go, a failure ends all.
//
// `file` (model/steps/step_list.h) says what steps there are; `file`.sock is where it listens. It holds a lock on
// `file` for as long as it lives, so there is one at most.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/host_port.h"
#include "base/result.h"
#include "base/time.h"
#include "model/steps/step_book.h"
#include "model/steps/step_list.h"
#include "platform/records/step_wire.h"
#include "platform/steps/gang_parts.h"
#include "platform/steps/step_task.h"

namespace divvy {

/// The tasks of a step that has got its GPUs.
struct StepTasks {
  std::vector<StepTask> tasks;     // By rank; none only where the step runs on other machines alone.
  std::vector<std::size_t> ranks;  // Of these tasks; empty: from 0 on.
  std::vector<StepTaskLine> map;   // By rank; empty where all tasks share all.
};

/// Of a step that runs on other machines of the job as well, or only there.
struct SpreadPlan {
  std::vector<PartPlan> others;           // In the order of the job's machines.
  std::size_t own_place = 0;              // So many of `others` come before this machine.
  bool has_own = true;                    // Tasks run here as well.
  bool reserves = false;                  // It wants GPUs or cores for itself: machines are asked one by one.
  std::string layout;                     // LayoutText().
  std::optional<std::size_t> input_rank;  // Runs elsewhere, and reads what the caller reads.
  std::array<StepStream, 2> files;        // kFile: where output and error of all tasks elsewhere go; on this machine.
};

struct StepPlan {
  StepNeed need;
  bool is_immediate = false;         // Fails rather than waits.
  bool has_terminal = false;         // Task 0 gets a terminal of its own.
  bool kills_on_bad_exit = false;    // The first task that fails ends the others.
  bool takes_first_failure = false;  // The step's code is the first failing task's; else the highest.
  bool is_quiet = false;             // No word on failed tasks.
  Duration wait{0};                  // From the first task's end to the others' being ended; 0: for ever.
  bool has_labels = false;           // Lines of tasks elsewhere have their numbers; those here say so themselves.
  std::size_t tasks = 0;             // On all machines; 0: those that `make` makes.
  std::optional<SpreadPlan> spread;  // Nothing: it runs here alone, or is a part that another machine asks for.
  std::string directory;             // Where relative paths of `spread` begin.
  std::string name;                  // "17", of the job: "StepId=17.0".
  // For the list of steps.
  std::string command;
  std::string step_name;              // Empty: its program's.
  std::vector<StepMachine> machines;  // Of a job on several: those of the step in the job's order, without their GPUs.
  /// "0,3": indices on the server of the GPUs that its tasks here have, where it was granted these places.
  std::function<std::string(const std::vector<std::size_t>& gpus)> gpus_of;
  std::string program;  // "srun": before what is said of the step.
  std::string host;     // "box": before what is said of its tasks.
  std::string busy;     // Said once when it must wait.
  /// Called once, when the step has its GPUs (places in the job's list).
  std::function<Result<StepTasks>(StepNumber, const std::vector<std::size_t>& gpus)> make;
};
/// The error's message is for the caller, who ends with 1. kUnreachable: it is too early; another machine's call is
/// planned again soon.
using StepPlanner = std::function<Result<StepPlan>(StepCall&)>;

struct StepServerOptions {
  std::string file;
  std::size_t gpus = 0;  // The job's.
  int cores = 0;         // The job's; 0: not counted.
  StepPlanner planner;
  /// Also where there is one already; the port at which it hears other machines, 0: none.
  std::function<void(std::uint16_t port)> on_listening;
  Duration idle_most = std::chrono::minutes(10);  // It leaves when it has had nothing to do for so long.
  // The job is on several machines. The server then stays, whatever it has to do, until SIGTERM comes or `file` is
  // removed: the job is over, or its machine's run directory is gone and nothing is left that could stop it.
  Duration look_every = std::chrono::seconds(10);          // Whether `file` is still there.
  std::function<void(const std::string& why)> on_failure;  // It cannot listen.
  std::string key;                                         // 64 hexadecimal digits; empty: the job is on one machine.
  HostPort listen;                                         // Where it hears the others; port 0: any.
  std::string version;                                     // Of divvy: all machines of a job have the same.
};

/// The step process's whole life; returns its exit code. 0 at once when there is one already. Requires: one thread, no
/// descriptor but 0, 1, 2.
int RunStepServer(StepServerOptions options);

/// Where the step process of the job with this list of steps listens.
inline std::string StepSocketOf(const std::string& file) { return file + ".sock"; }

}  // namespace divvy
