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

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/runtime/byte_stream.h"
#include "platform/net/tls.h"
#include "platform/os/unique_fd.h"
#include "wire/http/http.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

/// The client of a connection, as of the moment when it connected.
struct Peer {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::int64_t pid = 0;
  std::uint64_t connection = 0;  // Unique during the server's life, counted from 1.
  // Set for TCP only: "10.0.0.9"; uid, gid and pid are unknown then. Empty on the Unix socket.
  std::string address;
  // The fingerprint of the client certificate whose key the client proved; empty if there is none.
  std::string fingerprint;
  bool is_plain = false;  // True for plain TCP, which only this machine can use.
  // Optional. The agent's node on which the client runs; `uid` is then the controller's uid for that user.
  std::string node;

  bool is_remote() const { return !address.empty(); }
};

struct ReplySlot;

/// The pending answer to one request. Copies share the same answer. A Reply may be kept for any time, even after the
/// end of the connection or of the server; it does nothing then. When the last copy is destroyed without an answer, the
/// client gets status 500; a stream is ended.
class Reply {
 public:
  Reply() = default;
  explicit Reply(std::shared_ptr<ReplySlot> slot);
  Reply(const Reply& other);
  Reply(Reply&& other) noexcept : slot_(std::move(other.slot_)) {}
  Reply& operator=(Reply other) noexcept {
    slot_.swap(other.slot_);
    return *this;
  }
  ~Reply();

  /// Sends a complete answer. Only the first call counts.
  void Answer(const HttpResponse& response);

  /// Used instead of Answer: starts a body of unknown length that is sent in pieces.
  void BeginStream(std::string_view content_type);
  /// Returns false if the client is gone.
  bool Send(std::string_view piece);
  void EndStream();

  /// Used instead of Answer: the connection switches to another protocol for as long as the stream lives. It no longer
  /// counts as one of the server's connections, and the stream's owner decides how slow its reader may be. Returns null
  /// if the client is gone or has sent more than this request.
  std::unique_ptr<ByteStream> TakeOver(std::string_view protocol);

  /// Calls `callback` once if the client goes away before the answer (or stream) is complete. The call comes from the
  /// loop, never from inside a call on this object, and never because the server stops. Returns false if the client is
  /// already gone; `callback` is then never called.
  bool OnClosed(std::function<void()> callback);

  /// Keeps `ticket` alive until the answer is complete or the client is gone, whatever it stands for.
  void Keep(std::shared_ptr<void> ticket);

  /// The client is connected and the answer is not complete.
  bool is_open() const;

 private:
  std::shared_ptr<ReplySlot> slot_;
};

struct HttpServerOptions {
  std::string path;
  unsigned mode = 0600;                           // File mode of the socket; it controls who may connect.
  std::size_t connections = 4096;                 // Limit on the Unix socket; further connections get status 503.
  std::size_t reserved_connections = 256;         // Part of `connections`, for root and the daemon's own user.
  std::size_t connections_of_a_local_user = 256;  // Part of `connections`, for each other user.
  std::size_t requests_in_flight = 4096;          // Per connection; when reached, reading stops.
  std::size_t output_bytes = 1u << 20;            // Unsent answers of a connection; when reached, reading stops.
  std::size_t stream_backlog_bytes = 4u << 20;    // Unsent bytes of a stream; when exceeded, the connection is dropped.
  std::size_t fds_per_request = 6;                // stdin, stdout, stderr, and a relay for each.
  // Limits over TLS and over plain TCP. When a limit is reached, the oldest connection that waits for no answer is
  // closed. If there is none, the new connection is closed. All of 127.0.0.0/8 and ::1 count as one address.
  std::size_t remote_connections = 1024;
  // Part of `remote_connections`, so that one machine cannot take them all.
  std::size_t connections_of_an_address = 256;
  std::size_t plain_connections = 256;
  // Connections from agents' nodes (Adopt); further ones get status 503.
  std::size_t node_connections = 2048;
  std::size_t connections_of_a_node = 256;  // Part of `node_connections`; an agent carries no more.
  // Part of `node_connections`, counted by the controller's uid of the user over all nodes.
  std::size_t connections_of_a_user = 512;
  HttpLimits remote_limits = {.header_bytes = 16u << 10, .body_bytes = 1u << 20};
  /// The time limit for each request from its first byte, and for each next piece of an answer until the client takes
  /// it. Over TCP it also covers the handshake and the first request together.
  std::chrono::milliseconds request_time = std::chrono::seconds(20);
  HttpLimits limits = {.body_bytes = 16u << 20};
  /// Limits on bytes of requests that are incomplete or not yet answered: per user or address, and in total. Requests
  /// beyond them get status 503. Small requests are accepted even if other clients have used up the total.
  std::size_t held_bytes_of_a_user = 17u << 20;
  std::size_t held_bytes = 68u << 20;
  /// Optional. Called for each accepted connection on the Unix socket, before its first request.
  std::function<void(int connection, const Peer& peer)> on_local;
};

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
