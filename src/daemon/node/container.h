// Containers of jobs: the process that starts one, in the place of the job's program and with its user's rights; and
// the removal of what is left when that process was killed.
//
// The node only says what is wanted (model/container_plan.h). The process finds the engine, fetches the image, with
// what the engine says of it in the job's output, runs the engine in the foreground and ends with its exit code. It
// writes down beside the job's list of steps which containers it begins and ends (ContainerLog), so that the node knows
// what a SIGKILL has left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/container_plan.h"
#include "platform/os/launch_descriptor.h"

namespace divvy {

/// `internal-container SCRIPT ARGUMENTS...` or `internal-container -- COMMAND...`, inside a job. Returns the exit code
/// of the program inside; 125, 126 or 127 with a line on standard error when it was not started.
int ContainerMain(const std::vector<std::string>& words);

/// `internal-container-remove UID GID FILE ENGINE`: becomes that user where it is root, and removes what FILE says is
/// left. It runs ENGINE ([container] engine of divvy.toml) and no other; with "auto" the one that FILE names, where
/// PATH or, without it, the usual folders have it.
int ContainerRemoveMain(const std::vector<std::string>& words);

/// Where a job's containers are written down, given where it lists its steps.
std::string ContainerLogPath(const std::string& step_list);
/// What is written there; empty where there is nothing.
ContainerLog ReadContainerLogFile(const std::string& path);

/// A process that runs ContainerRemoveMain by the program `divvy`; a pidfd becomes readable when it has ended, and then
/// Reap() is to be called. Not open: it could not be started.
struct ContainerRemoval {
  pid_t pid = 0;  // 0: no child of ours.
  Descriptor pidfd;
  void Reap() const;
};
ContainerRemoval StartContainerRemoval(const std::string& divvy, std::int64_t uid, std::int64_t gid,
                                       const std::string& log_path, const std::string& engine);

}  // namespace divvy
