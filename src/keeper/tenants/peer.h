// Who is at the other end of a tenant's connection. A number of a process is another's as soon as the process has
// ended; so it is held by a pidfd from the moment that the connection is taken, and looked at before it is used.
#pragma once

#include <cstdint>

#include "platform/os/launch_descriptor.h"

namespace divvy::keeper {

struct Peer {
  std::int64_t uid = -1;
  std::int64_t pid = 0;
  Descriptor life;  // pidfd; closed: the process could not be told from another of its number.
};

/// Of the process that connected. Before Linux 6.5 the kernel tells its number alone: then it has to be a live process
/// of the same user, which may be another of that user's own.
Peer PeerOf(int link);

/// The process of this pidfd has ended, reaped or not.
bool HasEnded(int life);

}  // namespace divvy::keeper
