// An agent's connection to its controller: established on a thread that may block, then handed to the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/runtime/byte_stream.h"
#include "platform/net/tls.h"
#include "platform/os/unique_fd.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

struct ControllerAddress {
  HostPort at;
  std::string fingerprint;  // The fingerprint of the controller's certificate.
};

/// A TLS connection on which the controller has accepted the agent protocol.
struct Dialled {
  HostPort at;
  Descriptor socket;
  TlsChannel channel;
};

/// How long connecting and each answer may take.
struct DialPatience {
  Duration connect = std::chrono::seconds(10);
  Duration answer = std::chrono::seconds(20);
};

/// Connects to a controller. Blocks until the controller has accepted or rejected the agent. `bearer` is "ID.SECRET" of
/// a token, or empty. Fails with kPermissionDenied and the controller's message if it rejects the agent, with
/// kFailedPrecondition if the peer is not the expected controller or serves no agents, and otherwise with kUnreachable.
Result<Dialled> DialController(const ControllerAddress& controller, const TlsIdentity& identity,
                               const std::string& bearer, const DialPatience& patience = {});

/// Makes the connection usable from the loop. Call on the loop's thread.
std::unique_ptr<ByteStream> MakeStream(boost::asio::io_context& loop, Dialled dialled);

}  // namespace divvy
