// The process that watches a job: it starts the job, forwards signals, enforces its time limit, relays its terminal,
// ends leftover processes, and records how the job ended. It watches one job at a time, from the job's start until the
// last of its processes is gone, and then takes the next one from the launcher. docs/supervisor.md describes its life
// and the effect of each kill.
#pragma once

#include "platform/supervisor/supervisor_setup.h"

namespace divvy {

/// Takes launch frames from `channel`, one job after the other, until the launcher closes it. Writes a byte to
/// `channel` when it can take another job. The calling process becomes the guard, and a child of it the supervisor.
/// Requires: a freshly forked process with one thread, all signals blocked, and only 0, 1, 2, `channel` and the pidfd
/// open.
[[noreturn]] void RunSupervisor(int channel, SupervisorSetup setup);

}  // namespace divvy
