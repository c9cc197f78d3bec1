// File systems in user space (FUSE). A process that waits for the answer of one survives SIGKILL. If it also holds the
// server's descriptor (/dev/fuse), nothing else closes that descriptor, and the process never ends. The kernel lets
// root abort the connection instead.
#pragma once

#include <sys/types.h>

#include <span>

namespace divvy {

/// Aborts the FUSE connections of `owner` whose server's descriptor one of these processes holds. Call it for processes
/// that got SIGKILL: they cannot serve anything any more. Does not block, and looks nothing up through a process's
/// files. Misses descriptors that are in flight in a socket, registered with io_uring, or opened under another path
/// than /dev/fuse. Needs root and Linux 6.16, which tells the connection of a descriptor; does nothing otherwise.
/// Returns the number of aborted connections. Cost: O(descriptors of the processes).
int AbortFuseServedBy(std::span<const pid_t> processes, uid_t owner);

}  // namespace divvy
