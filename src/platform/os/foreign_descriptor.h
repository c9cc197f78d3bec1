// Descriptors that others have opened and sent us, and connections that others have made. close(2) of the last copy may
// wait for as long as who opened it likes: a socket lingers, a file system in user space does not answer, and in the
// queue of a Unix socket lies another such descriptor. What is here never waits for that.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "platform/os/launch_descriptor.h"

namespace divvy {

/// Closes it. A pipe, a terminal and a file on a local disk are closed here. Anything else is given to a process of its
/// own, which has the last copy then and ends: the end of a process does not wait. Cost: two system calls, or a message
/// to that process; it is forked the first time. Threads may call it at once.
void CloseForeign(int fd);

/// Closes a connection that we have accepted. Its peer may have sent descriptors that nobody has read.
void CloseAccepted(int fd);

using ForeignDescriptor = OwnedDescriptor<&CloseForeign>;

struct ForeignMessage {
  ssize_t size = -1;  // Bytes; 0 at the end; -1 with errno.
  std::vector<ForeignDescriptor> descriptors;
};
/// recv(2) into `size` bytes, with its flags, and the descriptors that come with the bytes, closed on exec, in the
/// order in which they were sent. Of what is no socket: read(2).
ForeignMessage ReceiveForeign(int fd, void* into, std::size_t size, int flags);

}  // namespace divvy
