// An agent's connection to its controller: dialled on a thread that may wait, then given to the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/runtime/byte_stream.h"
#include "platform/net/tls.h"
#include "platform/os/launch_descriptor.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

struct ControllerAddress {
  HostPort at;
  std::string fingerprint;  // Of its certificate.
};

/// A TLS connection on which the controller has agreed to speak with agents.
struct Dialled {
  Descriptor socket;
  TlsChannel channel;
};

/// May take as long as the network lets it, and half a minute at most after that. `bearer`: "ID.SECRET" of a token; may
/// be empty. kPermissionDenied: the controller does not let us in, in its own words. kFailedPrecondition: it is not the
/// controller that it should be, or serves no agents. Else kUnreachable.
Result<Dialled> DialController(const ControllerAddress& controller, const TlsIdentity& identity,
                               const std::string& bearer);

/// On the loop's thread.
std::unique_ptr<ByteStream> MakeStream(boost::asio::io_context& loop, Dialled dialled);

}  // namespace divvy
