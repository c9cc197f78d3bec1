// The file descriptors that callers pass to the daemon as streams of their jobs.
//
// A user could pass any descriptor: a socket connected to a root service, an event counter, a file of procfs. If our
// process reads or writes it, the kernel treats that as done by root. So we accept only descriptors for which this
// makes no difference.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace divvy {

enum class StreamUse {
  kHandedOn,  // Only the job's own process uses it.
  kRead,      // One of our processes reads it.
  kWritten,   // One of our processes writes it: a stream of a terminal's client, or a relay to another machine.
};

/// Checks a descriptor that a caller passed as a stream of its job. Accepts terminals, pipes, regular files, stream
/// sockets (Unix and TCP), /dev/null and similar devices. If divvy itself reads or writes the descriptor, it must be
/// open for that. If it is then a Unix socket, its other end must belong to the caller, unless the caller is root,
/// because every message on it carries divvy's credentials.
///
/// Errors: kInvalidArgument says what `fd` is and what is allowed. `name` names the stream in it, such as "standard
/// output". Cost: a few system calls.
Status CheckPassedStream(int fd, StreamUse use, std::int64_t caller_uid, const char* name);

}  // namespace divvy
