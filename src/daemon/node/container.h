// Containers of jobs: the process that starts a container instead of the job's program, with the rights of the job's
// user; and the removal of containers that are left when that process was killed.
//
// The node only describes the container (model/container_plan.h). The process finds the engine and fetches the image,
// with the engine's messages in the job's output. It runs the engine in the foreground and ends with the engine's exit
// code. It records which containers it starts and ends (ContainerLog), next to the job's list of steps, so that the
// node knows what a SIGKILL has left behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/container_plan.h"
#include "platform/os/unique_fd.h"

namespace divvy {

/// `internal-container SCRIPT ARGUMENTS...` or `internal-container -- COMMAND...`, inside a job. Returns the exit code
/// of the program inside; 125, 126 or 127 with a line on standard error when it was not started.
int ContainerMain(const std::vector<std::string>& words);

/// `internal-container-remove UID GID FILE ENGINE`: switches to that user if it is root, and removes the containers
/// that FILE lists as left. It runs only ENGINE ([container] engine of divvy.toml). With "auto" it runs the engine that
/// FILE names, as found in PATH or, without PATH, in the usual folders.
int ContainerRemoveMain(const std::vector<std::string>& words);

/// Returns the path of a job's container record, given the path of its list of steps.
std::string ContainerLogPath(const std::string& step_list);
/// Returns the container record; an empty one if there is no file.
ContainerLog ReadContainerLogFile(const std::string& path);

/// A process that runs ContainerRemoveMain through the program `divvy`. The pidfd becomes readable when it has ended;
/// the caller must then call Reap(). The pidfd is not open if the process could not be started.
struct ContainerRemoval {
  pid_t pid = 0;  // 0 if the process is not a child of this process.
  Descriptor pidfd;
  void Reap() const;
};
ContainerRemoval StartContainerRemoval(const std::string& divvy, std::int64_t uid, std::int64_t gid,
                                       const std::string& log_path, const std::string& engine);

}  // namespace divvy
