// The process at the other end of a tenant's connection. A pid can be reused as soon as its process ends. It is
// therefore held by a pidfd from the moment the connection is accepted, and checked before use.
#pragma once

#include <cstdint>

#include "platform/os/unique_fd.h"

namespace divvy::keeper {

struct Peer {
  std::int64_t uid = -1;
  std::int64_t pid = 0;
  Descriptor life;  // pidfd. Closed: the process could not be identified reliably.
};

/// Returns the process at the other end of the socket `link`. Before Linux 6.5 the kernel reports only its pid. The pid
/// must then belong to a live process of the same user, which may be a different process of that user.
Peer PeerOf(int link);

/// Returns true if the process of the pidfd `life` has ended, even if its parent has not collected its exit status yet.
bool HasEnded(int life);

}  // namespace divvy::keeper
