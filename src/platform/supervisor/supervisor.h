// The process that watches a job: it starts the job, forwards signals, enforces its time limit, relays its terminal,
// ends leftover processes, and records how the job ended. It watches one job at a time, from the job's start until the
// last of its processes is gone, and then takes the next one from the launcher. docs/supervisor.md describes its life
// and the effect of each kill.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "platform/isolation/job_cgroup.h"
#include "platform/supervisor/launch.h"

namespace divvy {

/// The state that a supervisor inherits from its launcher.
struct SupervisorSetup {
  std::string run_directory;  // Absolute path; also the working directory.
  ProcessIdentity launcher;
  int launcher_pidfd = -1;  // -1 if the kernel does not support pidfds.
  CgroupRoots cgroups;
  AllocationEntry seat;
  /// The user of a daemon that is not root. That user may send commands, read run records and keep logs. -1: our own
  /// user.
  std::int64_t daemon_uid = -1;
  std::int64_t daemon_gid = -1;

  bool serves_another() const { return daemon_uid >= 0; }
  uid_t commander() const { return serves_another() ? static_cast<uid_t>(daemon_uid) : ::geteuid(); }
};

/// Takes launch frames from `channel`, one job after the other, until the launcher closes it. Writes a byte to
/// `channel` when it can take another job. The calling process becomes the guard, and a child of it the supervisor.
/// Requires: a freshly forked process with one thread, all signals blocked, and only 0, 1, 2, `channel` and the pidfd
/// open.
[[noreturn]] void RunSupervisor(int channel, SupervisorSetup setup);

}  // namespace divvy
