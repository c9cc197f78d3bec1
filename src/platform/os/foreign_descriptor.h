// Descriptors that other processes opened and sent to us, and connections that other processes made. The one who opened
// a descriptor controls how long close(2) of its last copy takes: a socket may linger, a user-space file system may not
// answer, and the queue of a Unix socket may hold another such descriptor. The functions here never wait for that.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "platform/os/unique_fd.h"

namespace divvy {

/// Closes `fd`. Closes a pipe, a terminal and a file on a local disk directly. Sends any other descriptor to a helper
/// process, which then holds the last copy and exits: process exit does not wait. Thread-safe. Cost: two system calls,
/// or one message to the helper, which is forked at the first use.
void CloseForeign(int fd);

/// Closes a connection that we accepted, whose peer may have sent descriptors that were never received.
void CloseAccepted(int fd);

using ForeignDescriptor = OwnedDescriptor<&CloseForeign>;

struct ForeignMessage {
  ssize_t size = -1;  // Bytes received; 0 at the end of the stream; -1 with errno set on failure.
  std::vector<ForeignDescriptor> descriptors;
};
/// Calls recv(2) for up to `size` bytes with `flags`. Returns the descriptors that came with the bytes in the order in
/// which they were sent, with close-on-exec set. Calls read(2) if `fd` is not a socket.
ForeignMessage ReceiveForeign(int fd, void* into, std::size_t size, int flags);

/// Receives one byte and the descriptors (at most `most`) that came with it, in the order in which they were sent, with
/// close-on-exec set. Never blocks; returns an empty list if there is none.
std::vector<Descriptor> ReceiveDescriptors(int socket, std::size_t most);

}  // namespace divvy
