// The launcher of a served machine as a program: prepares users and folders as root, and then runs LauncherService.
#pragma once

#include <string>
#include <vector>

#include "platform/supervisor/launch.h"

namespace divvy {

/// The user that the machine's daemon runs as.
inline constexpr const char* kDaemonUser = "divvy";

/// `internal-launcher-service [--emulate SPEC] [--emulate-as NAME] [--controllers-key KEY] [--leaves-when-idle]
/// [--detached]`, run as root. Creates the missing user and folders, takes over the files of a daemon or an agent of an
/// earlier release, which ran as root, and serves. --emulate-as: the name of the node that the UUIDs of emulated GPUs
/// are derived from. --controllers-key: stored as the key of the launcher on the controller's node; rights are checked
/// with it from then on. With --detached it first writes "ready" or an error to standard error.
int LauncherServiceMain(const std::vector<std::string>& words, AllocationEntry allocation_main);

}  // namespace divvy
