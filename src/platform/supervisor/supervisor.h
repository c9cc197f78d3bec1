// The process that watches a job: starts it, passes on signals, keeps its time limit, relays its terminal, ends what it
// leaves behind, and writes how it ended. It has one job at a time, from its start until the last of its processes has
// gone, and then takes the next from the launcher. docs/supervisor.md tells its life and what each kill leads to.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "platform/isolation/job_cgroup.h"
#include "platform/supervisor/launch.h"

namespace divvy {

/// What a supervisor inherits from its launcher.
struct SupervisorSetup {
  std::string run_directory;  // Absolute; also the working directory.
  ProcessIdentity launcher;
  int launcher_pidfd = -1;  // -1 where the kernel gives none.
  CgroupRoots cgroups;
  SeatEntry seat;
  /// The user of a daemon that is not root, which may then send commands, read run records and keep logs; -1: ours.
  std::int64_t daemon_uid = -1;
  std::int64_t daemon_gid = -1;

  bool serves_another() const { return daemon_uid >= 0; }
  uid_t commander() const { return serves_another() ? static_cast<uid_t>(daemon_uid) : ::geteuid(); }
};

/// Takes launch frames from `channel` until the launcher closes it, one job after the other. Writes a byte to it when
/// it can take another. The process that calls this becomes the guard, and a child of it the supervisor. Requires: a
/// freshly forked process with one thread, all signals blocked and nothing open but 0, 1, 2, `channel` and the pidfd.
[[noreturn]] void RunSupervisor(int channel, SupervisorSetup setup);

}  // namespace divvy
