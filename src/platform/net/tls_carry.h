// A TLS connection for those who know nothing but sockets.
#pragma once

#include "base/result.h"
#include "platform/net/tls.h"
#include "platform/os/launch_descriptor.h"

namespace divvy {

/// A socket whose bytes go over `channel`, which is over `connection`, and come from it, until either end is closed; by
/// a thread of its own, which takes no signals. Closing the socket closes the connection.
Result<Descriptor> CarryTls(Descriptor connection, TlsChannel channel);

}  // namespace divvy
