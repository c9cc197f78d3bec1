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

#include <string>

#include "platform/steps/step_server_options.h"

namespace divvy {

/// The step process's main function; returns its exit code. Returns 0 at once if there already is a step process.
/// Requires: one thread, no descriptors except 0, 1 and 2.
int RunStepServer(StepServerOptions options);

/// Returns the socket of the step process of the job with this list of steps.
inline std::string StepSocketOf(const std::string& file) { return file + ".sock"; }

}  // namespace divvy
