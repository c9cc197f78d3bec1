#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "model/job.h"
#include "platform/isolation/job_cgroup.h"
#include "platform/supervisor/launch_request.h"

namespace divvy {

/// The state that a supervisor inherits from its launcher.
struct SupervisorSetup {
  std::string run_directory;  // Absolute path; also the working directory.
  ProcessIdentity launcher;
  int launcher_pidfd = -1;  // -1 if the kernel does not support pidfds.
  CgroupRoots cgroups;
  AllocationEntry allocation_main;
  /// The user of a daemon that is not root. That user may send commands, read run records and keep logs. -1: our own
  /// user.
  std::int64_t daemon_uid = -1;
  std::int64_t daemon_gid = -1;

  bool serves_another() const { return daemon_uid >= 0; }
  uid_t commander() const { return serves_another() ? static_cast<uid_t>(daemon_uid) : ::geteuid(); }
};

}  // namespace divvy
