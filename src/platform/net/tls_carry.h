// Gives code that only handles plain sockets a TLS connection.
#pragma once

#include "base/result.h"
#include "platform/net/tls.h"
#include "platform/os/unique_fd.h"

namespace divvy {

/// Returns a socket whose data is relayed to and from `channel` (which uses `connection`) until either end is closed. A
/// thread of its own does this and takes no signals. Closing the socket closes the connection.
Result<Descriptor> CarryTls(Descriptor connection, TlsChannel channel);

}  // namespace divvy
