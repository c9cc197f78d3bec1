// The daemon's HTTP/1.1 server. It listens on a Unix socket and, if configured, over TLS; for browsers on this machine
// also over plain TCP on the loopback interface. Clients of the Unix socket are identified by the kernel (SO_PEERCRED),
// clients over TLS only by what their requests contain. File descriptors that arrive with a request on the Unix socket
// are part of it. A request may be answered long after it arrived. The answers on one connection are sent in the order
// of their requests, whatever the order in which they were given.
//
// Everything here runs on the thread of the io_context, including the callbacks. All answers given during one loop
// iteration leave each connection in one write. The server stops reading from a connection that does not read its
// answers. It drops a stream whose reader falls too far behind, and a client that does not finish a request, or does
// not take its answers, in time.
//
// No user can shut out the others: the connections of each user, node and address are limited, and so are the bytes of
// requests that the server holds for them. Root and the daemon's own user have no limits of their own, and have
// reserved connections and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/http/http_reply.h"
#include "daemon/http/http_server_options.h"
#include "platform/net/tls.h"
#include "platform/os/unique_fd.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

class HttpServer {
 public:
  using OnRequestCallback = std::function<void(const Peer& peer, HttpRequest&& request, Reply reply)>;

  /// Serves on `options.path`. Replaces a stale socket that no process serves. Fails with kAlreadyExists if another
  /// process serves it, and with the reason if the path cannot be used. The socket appears in one step, with its final
  /// mode.
  static Result<std::unique_ptr<HttpServer>> Listen(boost::asio::io_context& loop, HttpServerOptions options,
                                                    OnRequestCallback on_request);
  /// Takes over a connected stream socket whose other end speaks HTTP as `peer`. Requests from an agent's node are
  /// subject to the limits of TLS clients, but are counted separately.
  void Adopt(Descriptor connection, const Peer& peer);
  /// Also listens over TLS. Fails with the reason if the address cannot be bound.
  Status ListenTls(const HostPort& address, TlsContext context);
  /// Also accepts browser connections from `listener` (see ListenTcp), a plain TCP socket on a loopback address of this
  /// machine. As over TLS, the kernel does not reveal the client's user.
  void ListenPlain(Descriptor listener);
  /// The plain TCP port; 0 if the server does not listen on plain TCP.
  std::uint16_t plain_port() const;
  /// The TLS port, even if port 0 was requested; 0 if the server does not listen over TLS.
  std::uint16_t tls_port() const;
  /// Ends all connections and removes the socket if it is still ours. Must not run inside a callback.
  ~HttpServer();

  /// Stops accepting connections; existing ones continue. Removes the socket, so that a successor can serve.
  void StopAccepting();
  std::size_t connections() const;
  /// How often a connection had to wait because the process had no free file descriptor.
  std::uint64_t times_out_of_fds() const;

 private:
  class Loop;
  explicit HttpServer(std::shared_ptr<Loop> loop);
  std::shared_ptr<Loop> loop_;
};

}  // namespace divvy
