// Unix sockets that serve the processes of one machine.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "platform/launch_descriptor.h"

namespace divvy {

/// A listening stream socket at `path`, put there by rename so that it is never seen without its mode or its listener.
/// A socket that nobody serves any more is replaced; kAlreadyExists where somebody does, or where something else lies
/// there.
Result<Descriptor> ListenUnix(const std::string& path, unsigned mode);

/// Two ends of one stream, which wait. Both closed where the process has no descriptor left.
std::pair<Descriptor, Descriptor> MakeSocketPair();

/// Who connected, as of that moment; -1 where the kernel does not say.
struct PeerCredentials {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::int64_t pid = 0;
};
PeerCredentials CredentialsOf(int fd);

}  // namespace divvy
