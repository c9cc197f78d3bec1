// The daemon's doors: HTTP/1.1 on a Unix socket and, where it was told to listen, over TLS; for browsers on this
// machine also over plain TCP on its loopback. Whoever connects to the
// socket is known by the kernel's word (SO_PEERCRED), whoever comes over TLS only by what the request brings; file
// descriptors that come with a request over the socket are part of it; a request may be answered long after it came,
// and the answers of one connection leave in the order of their requests whatever the order in which they were given.
//
// Everything here belongs to the thread that runs the io_context, the callbacks included. What is answered during one
// turn of the loop leaves each connection in one write. A connection that does not read its answers is no longer read
// from. A stream's reader that falls behind by more than a bound is dropped, and so is a client that does not finish a
// request, or does not take its answers, in time.
//
// No user shuts out the others: the connections of each user, node and address are bounded, and so are the bytes of
// the requests that the server holds for them. Root and the daemon's own user are not bounded, and have connections
// and bytes that are reserved for them.
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
#include "platform/os/launch_descriptor.h"
#include "wire/http/http.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

/// Who is at the other end, as of the moment when it connected.
struct Peer {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::int64_t pid = 0;
  std::uint64_t connection = 0;  // Unique while the server lives, from 1.
  std::string address;           // Of who came over TLS: "10.0.0.9"; then nothing else is known. Empty: the socket.
  std::string fingerprint;       // Of the certificate that they showed and own; empty: none.
  bool is_plain = false;         // Over plain TCP, from this machine itself.
  std::string node;              // The agent's machine on which they are; then `uid` is what ours calls them.

  bool is_remote() const { return !address.empty(); }
};

struct ReplySlot;

/// The answer to one request, still to be given. Copies are the same answer. May be kept as long as need be, also past
/// the connection's end and the server's, when it does nothing. When the last copy goes without an answer, the client
/// gets status 500; a stream is ended.
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

  /// The whole answer. Only the first one counts.
  void Answer(const HttpResponse& response);

  /// Instead of Answer: a body without an end in sight, in pieces.
  void BeginStream(std::string_view content_type);
  /// False when nobody listens any more.
  bool Send(std::string_view piece);
  void EndStream();

  /// Instead of Answer: the connection speaks another protocol from here on, for as long as the stream lives. It no
  /// longer counts among the server's, and its reader may be as slow as the stream's owner lets it. Null where it
  /// cannot be: the client is gone, or has sent more than this request.
  std::unique_ptr<ByteStream> TakeOver(std::string_view protocol);

  /// `callback` is called once if the client goes away before the answer is given (the stream ended): from the loop,
  /// never from inside a call on this object, and never because the server stops. False when the client is gone
  /// already; then it is never called.
  bool OnClosed(std::function<void()> callback);

  /// `ticket` is let go when the answer is complete, or the client is gone.
  void Keep(std::shared_ptr<void> ticket);

  /// The client is there, and the answer is not complete.
  bool is_open() const;

 private:
  std::shared_ptr<ReplySlot> slot_;
};

struct HttpServerOptions {
  std::string path;
  unsigned mode = 0600;                           // File mode of the socket, which says who may connect.
  std::size_t connections = 4096;                 // On the socket; more are answered with 503.
  std::size_t reserved_connections = 256;         // Of them, for root and the daemon's own user.
  std::size_t connections_of_a_local_user = 256;  // Of them, of each other user.
  std::size_t requests_in_flight = 4096;          // Per connection; then it is not read from.
  std::size_t output_bytes = 1u << 20;            // Unsent answers of a connection; then it is not read from.
  std::size_t stream_backlog_bytes = 4u << 20;    // Unsent part of a stream; then the connection is dropped.
  std::size_t fds_per_request = 6;                // stdin, stdout, stderr; the relays of each.
  // Over TLS, and over plain TCP: where there is no room for one more, the oldest one that waits for no answer has to
  // go; if there is none, the new one is cut off. All of 127.0.0.0/8 and ::1 are one address.
  std::size_t remote_connections = 1024;
  std::size_t connections_of_an_address = 256;  // Of them; so that one machine cannot take them all.
  std::size_t plain_connections = 256;
  // From agents' machines (Adopt); more are answered with 503.
  std::size_t node_connections = 2048;
  std::size_t connections_of_a_node = 256;  // Of them, as many as an agent carries.
  std::size_t connections_of_a_user = 512;  // Of them, by what ours calls the user; wherever their jobs are.
  HttpLimits remote_limits = {.header_bytes = 16u << 10, .body_bytes = 1u << 20};
  /// How long each request may take from its first byte, and the next piece of an answer until it is taken; over TCP
  /// also the handshake and the first request together.
  std::chrono::milliseconds request_time = std::chrono::seconds(20);
  HttpLimits limits = {.body_bytes = 16u << 20};
  /// Of requests that are incomplete or not answered yet, of one user or address, and of all of them together; more
  /// are answered with 503. Small requests are taken also where the others have used up the second one.
  std::size_t held_bytes_of_a_user = 17u << 20;
  std::size_t held_bytes = 68u << 20;
  /// Hears of each connection on the socket that is taken, before its first request; may be empty.
  std::function<void(int connection, const Peer& peer)> on_local;
};

class HttpServer {
 public:
  using OnRequestCallback = std::function<void(const Peer& peer, HttpRequest&& request, Reply reply)>;

  /// Serves on `options.path`. A socket that nobody serves any more is replaced; fails with kAlreadyExists when someone
  /// does, and with the reason when the path cannot be used. The socket appears complete, with its mode.
  static Result<std::unique_ptr<HttpServer>> Listen(boost::asio::io_context& loop, HttpServerOptions options,
                                                    OnRequestCallback on_request);
  /// A connected stream socket, whose other end speaks HTTP as `peer`. What comes from an agent's machine is held to
  /// the limits of what comes over TLS, and is counted by itself.
  void Adopt(Descriptor connection, const Peer& peer);
  /// Listens there as well, over TLS. Fails with the reason when the address cannot be had.
  Status ListenTls(const HostPort& address, TlsContext context);
  /// Also accepts connections of browsers from `listener` (see ListenTcp), a plain TCP socket at an address of this
  /// machine's loopback. As over TLS, the kernel does not say which user a client is.
  void ListenPlain(Descriptor listener);
  /// As tls_port.
  std::uint16_t plain_port() const;
  /// The port that it listens at over TLS, also where 0 was asked for; 0: it does not.
  std::uint16_t tls_port() const;
  /// Ends all connections and removes the socket, if it is still ours. Not from inside a callback.
  ~HttpServer();

  /// No new connections; the present ones go on. Removes the socket, so that a successor may serve.
  void StopAccepting();
  std::size_t connections() const;
  /// How often a connection had to wait because the process had no file descriptor left.
  std::uint64_t times_out_of_fds() const;

 private:
  class Loop;
  explicit HttpServer(std::shared_ptr<Loop> loop);
  std::shared_ptr<Loop> loop_;
};

}  // namespace divvy
