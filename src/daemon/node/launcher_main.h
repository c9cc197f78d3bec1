// The launcher of a served machine as a program: what it makes ready as root, and then LauncherService.
#pragma once

#include <string>
#include <vector>

#include "platform/supervisor/launch.h"

namespace divvy {

/// The user that the machine's daemon runs as.
inline constexpr const char* kDaemonUser = "divvy";

/// `internal-launcher-service [--emulate SPEC] [--emulate-as NAME] [--controllers-key KEY] [--leaves-when-idle]
/// [--detached]`, as root. Makes the user and the folders that are missing, takes over what a daemon or an agent of an
/// earlier release, which was root itself, has left, and serves. --emulate-as: the node whose own the UUIDs of stand-in
/// GPUs are. --controllers-key: stored as the key of the launcher on the controller's machine, by which rights are
/// checked from then on. With --detached it says "ready" or an error on standard error first.
int LauncherServiceMain(const std::vector<std::string>& words, SeatEntry seat);

}  // namespace divvy
