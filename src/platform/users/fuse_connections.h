// File systems in user space (FUSE) that do not answer. A process that waits for such an answer cannot be ended, not
// even by SIGKILL. The kernel lets root end the file system instead.
#pragma once

#include <sys/types.h>

namespace divvy {

/// Ends the FUSE file systems that `owner` has mounted and that have a request without an answer. Their requests then
/// fail, and so do later ones, until the owner mounts them again. Does nothing without root or before Linux 5.2. Reads
/// no file of a user.
void AbortFuseOf(uid_t owner);

}  // namespace divvy
