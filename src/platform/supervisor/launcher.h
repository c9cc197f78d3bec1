// The launcher's loop, run by LauncherMain below a daemon with its own rights, or by a child of
// LauncherService (launcher_service.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "platform/os/unique_fd.h"
#include "platform/supervisor/launch_request.h"
#include "platform/supervisor/root_errand.h"

namespace divvy {

/// The launcher's main function. Returns its exit code after the daemon has closed the other end of `socket_fd`. Call
/// it only in a process of its own, before any thread is started.
int LauncherMain(int socket_fd, AllocationEntry allocation_main);

/// Prepares the signals of a launcher: resets all signal actions, blocks all signals, and lets the kernel reap
/// children.
void TakeLauncherSignals();

/// Serves one daemon that is not root, over `socket`, until the daemon closes it; returns an exit code. Greets it with
/// one byte, `reports` (the socket on which supervisors report) and this process's pid (8 bytes). If it cannot serve
/// the daemon, it sends the byte without a descriptor, then the reason as text, then closes the socket. Requires: only
/// 0, 1, 2 and these two descriptors are open.
int ServeLaunches(int socket, int reports, const ErrandSetup& setup, RightChecker checker,
                  AllocationEntry allocation_main);

/// Takes the lock on RUN_DIRECTORY/launcher.lock; waits up to 5 s for an earlier launcher to exit.
Result<Descriptor> AwaitLauncherLock(const std::string& run_directory);
/// Writes the pid of the lock's holder to the lock file.
void NameLauncher(int lock, std::int64_t pid);

}  // namespace divvy
