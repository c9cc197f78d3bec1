// The launcher's loop, for whoever becomes one: LauncherMain (launch.h) below a daemon with rights of its own, or a
// child of LauncherService (launcher_service.h).
#pragma once

#include "platform/supervisor/launch.h"
#include "platform/supervisor/root_errand.h"

namespace divvy {

/// Standard signal actions, all blocked; children are reaped by the kernel.
void TakeLauncherSignals();

/// Serves one daemon that is not root, over `socket`, until it closes it; returns an exit code. It is greeted by a
/// byte, with which comes `reports`, the socket at which supervisors report, and this process's pid (8 bytes). Where it
/// cannot be served the byte comes alone, and behind it, up to the end, in words why. Requires: nothing is open but 0,
/// 1, 2 and these two.
int ServeLaunches(int socket, int reports, const ErrandSetup& setup, RightChecker checker, SeatEntry seat);

/// Holds RUN_DIRECTORY/launcher.lock, waiting for an earlier launcher to leave (5 s).
Result<Descriptor> AwaitLauncherLock(const std::string& run_directory);
/// Says in the lock's file which process has it.
void NameLauncher(int lock, std::int64_t pid);

}  // namespace divvy
