// Unix sockets between the processes of one machine.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "platform/os/unique_fd.h"

namespace divvy {

/// Creates a listening stream socket at `path`. It is moved there by rename, so that it is never visible without its
/// mode or its listener. Replaces a socket that has no listener any more. Fails with kAlreadyExists if another process
/// listens on it, or if the path is not a socket.
Result<Descriptor> ListenUnix(const std::string& path, unsigned mode);

/// Returns the two ends of one blocking stream. Both are closed if the process has no descriptor left.
std::pair<Descriptor, Descriptor> MakeSocketPair();

/// Sends as much of `bytes` as one sendmsg(2) takes, with `fds` (at most 200) attached to the first byte. Returns the
/// number of bytes sent, or -1 with errno set. Raises no SIGPIPE and allocates nothing, so it may be called between
/// fork and exec.
ssize_t SendWithDescriptors(int socket, std::string_view bytes, std::span<const int> fds, int flags);

/// The process that connected, as of that moment; -1 if the kernel does not report it.
struct PeerCredentials {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::int64_t pid = 0;
};
PeerCredentials CredentialsOf(int fd);

}  // namespace divvy
