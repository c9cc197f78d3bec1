// Unix sockets that serve the processes of one machine.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "platform/os/launch_descriptor.h"

namespace divvy {

/// A listening stream socket at `path`, put there by rename so that it is never seen without its mode or its listener.
/// A socket that nobody serves any more is replaced; kAlreadyExists where somebody does, or where something else lies
/// there.
Result<Descriptor> ListenUnix(const std::string& path, unsigned mode);

/// Two ends of one stream, which wait. Both closed where the process has no descriptor left.
std::pair<Descriptor, Descriptor> MakeSocketPair();

/// Sends what one sendmsg(2) takes of `bytes`, with `fds` (at most 200) on the first byte. How many bytes that were; -1
/// with errno. Raises no SIGPIPE and allocates nothing, so a process may call it between fork and exec.
ssize_t SendWithDescriptors(int socket, std::string_view bytes, std::span<const int> fds, int flags);

/// Takes one byte, and the descriptors (at most `most`) that came with it, in the order in which they were sent; they
/// are closed on exec. Never waits; empty where there is none.
std::vector<Descriptor> ReceiveDescriptors(int socket, std::size_t most);

/// Who connected, as of that moment; -1 where the kernel does not say.
struct PeerCredentials {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::int64_t pid = 0;
};
PeerCredentials CredentialsOf(int fd);

}  // namespace divvy
