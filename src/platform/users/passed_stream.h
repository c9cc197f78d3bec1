// The file descriptors that callers pass to the daemon as streams of their jobs.
//
// A user could pass any: a socket that is connected to a service of root's, an event counter, a file of procfs. Where
// a process of ours reads or writes it, the kernel takes that for root's doing. So only those are accepted with which
// this changes nothing.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace divvy {

enum class StreamUse {
  kHandedOn,  // The job's own process gets it, and nobody else uses it.
  kRead,      // A process of ours reads it,
  kWritten,   // or writes it: the streams of a terminal's clients, and the relays of streams to other machines.
};

/// Accepts terminals, pipes, regular files, stream sockets (Unix and TCP), /dev/null and its like. One that we use
/// ourselves must be open for that, and a Unix socket's other end must belong to the caller, unless that is root: every
/// message that we send bears our credentials.
///
/// Errors: kInvalidArgument says what `fd` is and what is allowed; `name` is that of the stream, such as "standard
/// output". Cost: a few system calls.
Status CheckPassedStream(int fd, StreamUse use, std::int64_t caller_uid, const char* name);

}  // namespace divvy
